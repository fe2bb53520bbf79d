// Package logconfig is the configuration of one partition in Kafka's units, and its defaults.
//
// It does not know where a value comes from (meta/config), and decides nothing by it.
//
// It owns no goroutines and has no lock: a Config is a value.
package logconfig
