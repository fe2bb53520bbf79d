package limits

// Bounds of the policies of admin requests.
const (
	// PolicyCost is how many CEL cost units one evaluation may take. A comparison
	// or a field is 1, a regular expression or a walk over a map its length: an
	// expression over a topic's 30 overrides takes a few hundred.
	PolicyCost = 100_000
	// PolicyInterruptCheck is after how many steps of a loop the time is looked at.
	PolicyInterruptCheck = 100
	// PolicyTimeoutMs bounds one evaluation in time, for what cost does not see.
	PolicyTimeoutMs = 200
)
