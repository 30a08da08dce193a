"""What people use: command line, campaigns, coordinator, exports."""
