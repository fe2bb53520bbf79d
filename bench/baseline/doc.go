// Package baseline is how the regression guard judges: rows, the committed
// ones they are compared with, and their table.
//
// What it is not: a measurement. Package bench has the gates.
//
// It owns no goroutines and no locks.
package baseline
