//go:build !guardtest

package main

import "kaas/netio"

// faulty is the handler itself; a guardtest build wraps it.
func faulty(h netio.Handler) netio.Handler { return h }
