// Command kaas is a Kafka-compatible broker.
//
//	kaas broker [server.properties] [--override key=value …] [--dev]
//	kaas version
//
// This package is wiring only: flags, configuration, start, stop. It makes one
// of each room, hands them to one another and ends them in the reverse order;
// whatever decides something about Kafka belongs in a room.
//
// Goroutines: main waits for signals and for the end of the broker; the HTTP
// server and the admin pool own their workers and end with server.stop. There
// are no locks but those of the rooms.
package main
