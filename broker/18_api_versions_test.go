package broker

import (
	"encoding/hex"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
)

// TestApiVersionsGolden pins the bytes after the length: correlation id, never a
// tagged field in the header, body. A stray byte here and no client connects.
func TestApiVersionsGolden(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	b.registry.Store(nil)
	handle := func(*codec.Request) {}
	api := b.apiVersionsAPI()
	registry, err := codec.NewRegistry(
		codec.API{Key: 0, Name: "Produce", MinVersion: 0, MinServed: 3, MaxVersion: 13, Handle: handle},
		codec.API{Key: 3, Name: "Metadata", MaxVersion: 13, Handle: handle},
		api,
		codec.API{Key: 19, Name: "CreateTopics", MinVersion: 2, MaxVersion: 7, Handle: handle, Unstable: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	b.SetRegistry(registry)

	const (
		v0 = "000004d2" + "0000" + "00000003" + "00000000000d" + "00030000000d" + "001200000005"
		v3 = "000004d2" + "0000" + "04" + "00000000000d00" + "00030000000d00" + "00120000000500" + "00000000"
		// metadata.version is "6d65…6e"
		metadataVersion = "11" + "6d657461646174612e76657273696f6e"
		groupVersion    = "0e" + "67726f75702e76657273696f6e"
		txnVersion      = "14" + "7472616e73616374696f6e2e76657273696f6e"
		epoch           = "01" + "08" + "0000000000000001"
		finalized       = "02" + "43" + "04" + groupVersion + "00010001" + "00" + metadataVersion + "00210021" + "00" + txnVersion + "00020002" + "00"
	)
	for version, want := range []string{
		v0,
		v0 + "00000000",
		v0 + "00000000",
		v3 + "03" + "00" + "17" + "02" + metadataVersion + "00070021" + "00" + epoch + finalized,
		v3 + "03" + "00" + "43" + "04" + groupVersion + "00000001" + "00" + metadataVersion + "00070021" + "00" + txnVersion + "00000002" + "00" + epoch + finalized,
	} {
		request := kmsg.NewPtrApiVersionsRequest()
		request.Version, request.ClientSoftwareName, request.ClientSoftwareVersion = int16(version), "name", "1.0"
		wire := kmsg.NewRequestFormatter().AppendRequest(nil, request, 1234)[4:]
		raw, err := exchange(t, b, testSession(), wire)
		if err != nil {
			t.Errorf("v%d: %v", version, err)
		} else if got := hex.EncodeToString(raw); got != want {
			t.Errorf("v%d:\n got %s\nwant %s", version, got, want)
		}
	}
}

// TestApiVersionsUnknownVersion: Kafka 4.4 answers v99 with exactly these bytes
// (there, too, ApiVersions is served up to v5).
func TestApiVersionsUnknownVersion(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	for _, version := range []string{"0006", "0063", "7fff"} {
		wire, err := hex.DecodeString("0012" + version + "00001267" + "000178" + "00" + "056e65772102790000")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := exchange(t, b, testSession(), wire)
		if err != nil {
			t.Errorf("v%s: %v", version, err)
		} else if got, want := hex.EncodeToString(raw), "00001267"+"0023"+"00000001"+"001200000005"; got != want {
			t.Errorf("v%s: got %s, want %s", version, got, want)
		}
	}
}

func TestApiVersionsWhoTheClientIs(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	cluster, other := "cluster-0", "cluster-1"
	for _, c := range []struct {
		version       int16
		name, program string
		clusterID     *string
		nodeID        int32
		want          *kerr.Error
	}{
		{3, "apache-kafka-java", "4.4.0", nil, -1, nil},
		{3, "a", "b", nil, -1, nil},
		{3, "", "1", nil, -1, kerr.InvalidRequest},
		{3, "x", "", nil, -1, kerr.InvalidRequest},
		{3, "bad name", "1", nil, -1, kerr.InvalidRequest},
		{4, "-x", "1", nil, -1, kerr.InvalidRequest},
		{4, "x", "1\n", nil, -1, kerr.InvalidRequest},
		{5, "x", "1", nil, -1, nil},
		{5, "x", "1", &cluster, 1, nil},
		{5, "x", "1", &cluster, -1, kerr.InvalidRequest},
		{5, "x", "1", nil, 1, kerr.InvalidRequest},
		{5, "x", "1", &other, 1, kerr.RebootstrapRequired},
		{5, "x", "1", &cluster, 2, kerr.RebootstrapRequired},
	} {
		request := kmsg.NewPtrApiVersionsRequest()
		request.Version, request.ClientSoftwareName, request.ClientSoftwareVersion = c.version, c.name, c.program
		request.ClusterID, request.NodeID = c.clusterID, c.nodeID
		session := testSession()
		response := call[*kmsg.ApiVersionsResponse](t, b, session, request)
		switch {
		case c.want == nil && (response.ErrorCode != 0 || session.ClientSoftwareName != c.name || session.ClientSoftwareVersion != c.program):
			t.Errorf("%+v: error %d, session %+v", c, response.ErrorCode, session)
		case c.want != nil && (response.ErrorCode != c.want.Code || len(response.ApiKeys) != 0 || session.ClientSoftwareName != ""):
			t.Errorf("%+v: error %d, %d keys, session %+v", c, response.ErrorCode, len(response.ApiKeys), session)
		}
	}
}

func TestApiVersionsAllocations(t *testing.T) {
	b := newImageBroker(t)
	api := b.registry.Load().Lookup(apiVersionsKey)
	wire := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)[4:]
	session := testSession()
	if n := testing.AllocsPerRun(1000, func() { inlineOnce(t, b, api, session, wire) }); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}
