package publish_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/publish"
)

// FuzzPublishRecord resumes an input for which the server holds any value as its record. The result is an error, or a
// record whose counts are usable.
func FuzzPublishRecord(f *testing.F) {
	for _, s := range []string{"", "{}", "null", "[]", `{"version":1}`, `{"version":9}`, `{"version":1,"documents":-1}`,
		`{"version":1,"documents":3,"skipped":4}`,
		`{"version":1,"documents":1e300}`,
		`{"version":1,"documents":3,"position":{"documents":2,"origin":"/input","index":1}}`,
		`{"version":1,"documents":3,"position":{"documents":4,"index":3}}`,
		`{"version":1,"documents":3,"fingerprint":"fingerprint","position":{"documents":1,"skipped":-1,"offset":-7}}`,
		`{"version":1,"documents":3,"last_sequence":18446744073709551615}`,
		`{"version":1,"first_sequence":5,"last_sequence":4}`, "\xff"} {
		f.Add([]byte(s))
	}
	s := publishStore(f)
	kv, err := s.JetStream().CreateOrUpdateKeyValue(f.Context(), jetstream.KeyValueConfig{Bucket: "loaderd_publish"})
	if err != nil {
		f.Fatal(err)
	}
	p := newPublisher(f, s, publish.Options{})
	sum := sha256.Sum256([]byte(s.Config().Name + "\x00" + "web" + "\x00" + "/input"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := kv.Put(t.Context(), "web."+hex.EncodeToString(sum[:16]), data); err != nil {
			t.Fatal(err)
		}
		r, err := p.Resume(t.Context(), "/input", "fingerprint")
		if err == nil && (r.Committed() < 0 || r.Stored() < 0 || r.Stored() > r.Committed()) {
			t.Fatalf("%q: %d documents, %d of them stored", data, r.Committed(), r.Stored())
		}
		if err != nil {
			return
		}
		if at, ok := r.Position(); ok && (at.Documents > r.Committed() || at.Skipped > at.Documents || at.Offset < 0) {
			t.Fatalf("%q: position %+v after %d documents", data, at, r.Committed())
		}
	})
}
