// What it declares, every text has already.
#pragma once
