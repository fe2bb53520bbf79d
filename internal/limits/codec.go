package limits

// Bounds of request dispatch (codec, broker).
const (
	// RequestMemoryBytes bounds the memory of all requests under way: their frames
	// and what decoding and answering them is estimated to take. Above it a request
	// is refused with a retriable error, or its connection is closed.
	// 1 GiB: ten frames of the largest default size (socket.request.max.bytes, 100 MiB).
	RequestMemoryBytes = 1 << 30

	// RefusedThrottleMs is how long a refused client is asked to wait. Kafka's
	// clients stop sending on the connection for that time (KIP-219).
	RefusedThrottleMs = 100
)
