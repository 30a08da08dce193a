"""Decides whether outputs are right: class first, then an element-wise limit from theory."""
