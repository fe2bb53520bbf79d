// Package config knows every configuration key: the names, types, defaults,
// units and limits of Apache Kafka 4.4, and what kaas does with each of them.
//
// It parses server.properties, the KAFKA_ environment variables of Kafka's
// container image and --override flags into one typed [Broker], and topic
// overrides into one typed [Topic]. The same tables answer DescribeConfigs and
// generate docs/configuration.md, so what the program does and what it says
// about itself cannot drift apart.
//
// It is not the place where a setting acts: rooms read typed fields and never
// look a key up by its name. It does not log; it returns warnings.
//
// Goroutines and locks: none. Tables are immutable after package
// initialisation; a *Broker is immutable after LoadBroker has returned it.
package config
