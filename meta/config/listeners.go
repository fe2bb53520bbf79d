package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// protocols are Kafka's SecurityProtocol names; only those that are true can
// be served.
var protocols = map[string]bool{"PLAINTEXT": true, "SSL": false, "SASL_PLAINTEXT": true, "SASL_SSL": false}

type endpoint struct {
	name, host string
	port       int32
}

// parseEndpoint reads NAME://host:port. Brackets around an IPv6 host are
// taken off.
func parseEndpoint(text string) (endpoint, bool) {
	name, address, ok := strings.Cut(text, "://")
	if !ok || name == "" {
		return endpoint{}, false
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return endpoint{}, false
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return endpoint{}, false
	}
	return endpoint{strings.ToUpper(name), host, int32(port)}, true
}

const endpointForm = "NAME://host:port, separated by commas"

func parseEndpoints(key, value string) ([]endpoint, error) {
	var out []endpoint
	for _, text := range splitList(value) {
		e, ok := parseEndpoint(text)
		if !ok {
			return nil, &ValueError{Key: key, Value: value, Allowed: endpointForm}
		}
		out = append(out, e)
	}
	return out, nil
}

// fillListeners joins the four listener keys. It returns the listeners that
// were left out because a KRaft controller would own them, as text for the
// line about settings without effect.
func (b *Broker) fillListeners() (dropped []string, err error) {
	value, _ := b.value(BrokerKey("listeners"))
	endpoints, err := parseEndpoints("listeners", value)
	if err != nil {
		return nil, err
	}
	protocolOf, err := b.protocolMap()
	if err != nil {
		return nil, err
	}
	controllers := b.controllerNames()
	for _, e := range endpoints {
		if slices.Contains(controllers, e.name) {
			dropped = append(dropped, "listener "+e.name)
			continue
		}
		if err := b.addListener(e, protocolOf, value); err != nil {
			return nil, err
		}
	}
	if len(b.Listeners) == 0 {
		return nil, &ValueError{Key: "listeners", Value: value, Allowed: "at least one listener that is not a controller's"}
	}
	return dropped, b.fillAdvertised(controllers)
}

func (b *Broker) addListener(e endpoint, protocolOf map[string]string, value string) error {
	protocol, ok := protocolOf[e.name]
	if !ok {
		return &ValueError{Key: "listeners", Value: value,
			Allowed: "names of listener.security.protocol.map", Why: "it has no security protocol for " + e.name}
	}
	if !protocols[protocol] {
		return &ValueError{Key: "listeners", Value: value,
			Allowed: "listeners with the security protocol PLAINTEXT or SASL_PLAINTEXT", Why: e.name + " has " + protocol + ", which is not built yet"}
	}
	for _, other := range b.Listeners {
		if other.Name == e.name {
			return &ValueError{Key: "listeners", Value: value, Allowed: "each listener name once", Why: e.name + " occurs twice"}
		}
		if e.port != 0 && other.Port == e.port && (other.Host == e.host || other.Host == "" || e.host == "") {
			return &ValueError{Key: "listeners", Value: value, Allowed: "each address once",
				Why: fmt.Sprintf("%s and %s share port %d", other.Name, e.name, e.port)}
		}
	}
	b.Listeners = append(b.Listeners, Listener{Name: e.name, Protocol: protocol, Host: e.host, Port: e.port})
	return nil
}

// controllerNames are the listeners of a KRaft controller. A file with
// process.roles but without the names means Kafka's usual one.
func (b *Broker) controllerNames() []string {
	value, _ := b.value(BrokerKey("controller.listener.names"))
	names := splitList(strings.ToUpper(value))
	if len(names) == 0 {
		names = []string{"CONTROLLER"}
	}
	return names
}

func (b *Broker) protocolMap() (map[string]string, error) {
	const key = "listener.security.protocol.map"
	value, _ := b.value(BrokerKey(key))
	out := make(map[string]string)
	for _, pair := range splitList(value) {
		name, protocol, ok := strings.Cut(pair, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if _, known := protocols[protocol]; !ok || name == "" || !known {
			return nil, &ValueError{Key: key, Value: value,
				Allowed: "NAME:PROTOCOL, separated by commas, with the protocols PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"}
		}
		out[name] = protocol
	}
	return out, nil
}

func (b *Broker) fillAdvertised(controllers []string) error {
	const key = "advertised.listeners"
	value, ok := b.value(BrokerKey(key))
	if !ok || value == "" {
		return nil
	}
	endpoints, err := parseEndpoints(key, value)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if slices.Contains(controllers, e.name) {
			continue
		}
		i := slices.IndexFunc(b.Listeners, func(l Listener) bool { return l.Name == e.name })
		if i < 0 {
			return &ValueError{Key: key, Value: value, Allowed: "names of listeners", Why: e.name + " is none"}
		}
		if e.host == "0.0.0.0" || e.host == "::" {
			return &ValueError{Key: key, Value: value, Allowed: "addresses that clients can reach", Why: "nobody can connect to " + e.host}
		}
		if e.host == "" { // as without advertised.listeners: the address that the client came by
			continue
		}
		b.Listeners[i].AdvertisedHost, b.Listeners[i].AdvertisedPort = e.host, e.port
	}
	return nil
}

// validHTTPAddress takes "" and host:port.
func validHTTPAddress(parsed any) bool {
	address := parsed.(string)
	if address == "" {
		return true
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
