package checkpoints

import (
	"testing"

	"loaderd/internal/fuzztest"
	"loaderd/stream/casvalue"
)

func FuzzDecodeManifest(f *testing.F) {
	for _, s := range []string{`{"value":{"plan":1,"term":2,"checkpoints":[{"name":"step-1","step":1,"bytes":9}]}}`,
		`{"value":{"checkpoints":[{"name":"a\nb"}]}}`,
		`{"value":{"checkpoints":[{"bytes":-1,"name":"x"}]}}`, `{"value":{"checkpoints":[{"bytes":1}]}}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := casvalue.Decode[manifest](b)
		if err != nil {
			return
		}
		for _, s := range v.Value.Checkpoints {
			if s.Name == "" || s.Bytes < 0 {
				t.Fatalf("accepted: %+v", v)
			}
		}
		fuzztest.RoundTrip(t, v, casvalue.Decode[manifest])
	})
}
