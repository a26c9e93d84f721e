package retention

import (
	"testing"

	"loaderd/internal/fuzztest"
	"loaderd/stream/casvalue"
)

// Other processes may write to the bucket, so any value must be decoded or rejected.
func FuzzDecodeWatermarks(f *testing.F) {
	for _, s := range []string{``, `{}`,
		`{"change":"a","value":{"purged":7,"runs":{"run":{"plan":1,"term":2,"from":3,"sealed":true,"end":9}}}}`,
		`{"value":{"purged":18446744073709551615}}`, `{"value":{"runs":{"a b":{}}}}`,
		`{"value":{"runs":{"r":{"from":1e9}}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := casvalue.Decode[watermarks](b)
		if err != nil {
			return
		}
		for run, needs := range v.Value.Runs {
			if run == "" || needs.From > maxSequence {
				t.Fatalf("accepted: %+v", v)
			}
		}
		if v.Value.Purged > maxSequence {
			t.Fatalf("accepted: %+v", v)
		}
		fuzztest.RoundTrip(t, v, casvalue.Decode[watermarks])
	})
}

func FuzzDecodeIntake(f *testing.F) {
	for _, s := range []string{`{}`,
		`{"value":{"tokenizer":"sha256:a","text":true,"read":7,"full":true,"documents":7,"skipped":{"masked":3}}}`,
		`{"value":{"read":18446744073709551615}}`, `{"value":{"documents":-1}}`, `{"value":{"skipped":{"lost":1}}}`,
		`{"value":{"skipped":{"masked":-1}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := casvalue.Decode[intake](b)
		if err != nil {
			return
		}
		if v.Value.Read > maxSequence || v.Value.Documents < 0 || v.Value.Skipped.Total() < 0 {
			t.Fatalf("accepted: %+v", v)
		}
		fuzztest.RoundTrip(t, v, casvalue.Decode[intake])
	})
}
