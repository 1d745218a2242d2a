#include "CRelease.h"

// Package.swift defines it from the environment. Only this file depends on it, so another commit compiles no Swift.
#ifndef DECART_COMMIT
#define DECART_COMMIT ""
#endif

const char *decart_build_name(void) { return DECART_COMMIT[0] ? "commit " DECART_COMMIT : "development build"; }
