package limits

// Bounds of quotas.
const (
	// QuotaThrottleMaxMs is the longest that one reply throttles its client; what is
	// owed beyond it is found by the next one. Below the request timeout of clients
	// (30 s), which would close the connection and come back.
	QuotaThrottleMaxMs = 10_000
	// QuotaOverrides bounds the users without a resource that AlterClientQuotas gave a quota.
	QuotaOverrides = 100_000
)
