package codec

// Session is what is known about one connection. Its fields are written on the
// connection's event loop only (on opening, by ApiVersions and by the SASL
// exchange) and are read by the handlers of later requests of the same
// connection; a request is dispatched on the same loop after the write, which
// orders the two.
type Session struct {
	// Each request touches Context and Principal, which therefore stand first.

	// Context is the broker's own state of the connection.
	Context any
	// Principal is Kafka's string form, "User:ANONYMOUS" without authentication.
	Principal string

	// ID is unique for the life of the process.
	ID uint64
	// Listener is the Kafka listener name that the client came by; LocalHost and
	// LocalPort are the address that it connected to, RemoteHost its own.
	Listener   string
	LocalHost  string
	LocalPort  int32
	RemoteHost string
	// ClientSoftwareName and ClientSoftwareVersion come with ApiVersions v3+
	// (KIP-511), empty before.
	ClientSoftwareName    string
	ClientSoftwareVersion string
}

// AnonymousPrincipal is the principal of a connection that does not authenticate.
const AnonymousPrincipal = "User:ANONYMOUS"
