package config

// Warning is one line for the operator about a setting that does nothing.
type Warning struct {
	// Keys are the keys that the line is about, sorted.
	Keys []string
	// Message names them and says why they have no effect.
	Message string
}

// LoadBroker reads properties files (in order), then the KAFKA_ variables of
// env (as os.Environ returns it), then overrides ("key=value"); what comes
// later wins. The error of a bad value names the key, the value and what is
// allowed; nothing has been touched then.
func LoadBroker(files, env, overrides []string) (*Broker, []Warning, error) {
	panic("config.LoadBroker is not there yet")
}

// DefaultBroker is the configuration when nothing is set.
func DefaultBroker() *Broker { panic("config.DefaultBroker is not there yet") }
