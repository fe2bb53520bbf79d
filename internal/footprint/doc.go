// Package footprint keeps a process small: it takes back the pages of the program's
// file that only the start has needed, and finds the limits of memory and open files
// that the process runs under.
//
// What it is not: it frees no heap and caps none; the Go runtime does, told by
// whoever asks here. It reads /proc and /sys of Linux.
//
// # Goroutines and locks
//
// None. Everything here is called once, at the start.
package footprint
