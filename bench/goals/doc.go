// Package goals is the targets, and the table that says which of them are met.
//
// What it is: the format of bench/results, the list of targets with the rows by
// which each is judged, and `kaas bench table`, which shows the newest of those
// rows, whichever run they come from.
//
// What it is not: a measurement. Who measures gives a row its verdict; what
// stands in no file has none.
//
// It owns no goroutines and no locks.
package goals
