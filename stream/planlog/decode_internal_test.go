package planlog

import (
	"encoding/json"
	"reflect"
	"testing"
)

// What stands under keys, and the records of leads, may be anybody's: it is read or refused, and what is read stands the same when it is written.
func FuzzDecodeFloors(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"change":"a","value":{"purged":7,"runs":{"run":{"plan":1,"term":2,"from":3,"sealed":true,"end":9}}}}`,
		`{"value":{"purged":18446744073709551615}}`, `{"value":{"runs":{"a b":{}}}}`, `{"value":{"runs":{"r":{"from":1e9}}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeCell[floors](b)
		if err != nil {
			return
		}
		for run, needs := range v.Value.Runs {
			if run == "" || needs.From > maxSequence {
				t.Fatalf("taken: %+v", v)
			}
		}
		if v.Value.Purged > maxSequence {
			t.Fatalf("taken: %+v", v)
		}
		survives(t, v, decodeCell[floors])
	})
}

func FuzzDecodeIntake(f *testing.F) {
	for _, s := range []string{`{}`, `{"value":{"tokenizer":"sha256:a","text":true,"read":7,"full":true,"documents":7,"skipped":{"masked":3}}}`,
		`{"value":{"read":18446744073709551615}}`, `{"value":{"documents":-1}}`, `{"value":{"skipped":{"lost":1}}}`, `{"value":{"skipped":{"masked":-1}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeCell[intake](b)
		if err != nil {
			return
		}
		if v.Value.Read > maxSequence || v.Value.Documents < 0 || v.Value.Skipped.Total() < 0 {
			t.Fatalf("taken: %+v", v)
		}
		survives(t, v, decodeCell[intake])
	})
}

func FuzzDecodeManifest(f *testing.F) {
	for _, s := range []string{`{"value":{"plan":1,"term":2,"checkpoints":[{"name":"step-1","step":1,"bytes":9}]}}`, `{"value":{"checkpoints":[{"name":"a\nb"}]}}`,
		`{"value":{"checkpoints":[{"bytes":-1,"name":"x"}]}}`, `{"value":{"checkpoints":[{"bytes":1}]}}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeCell[manifest](b)
		if err != nil {
			return
		}
		for _, s := range v.Value.Checkpoints {
			if s.Name == "" || s.Bytes < 0 {
				t.Fatalf("taken: %+v", v)
			}
		}
		survives(t, v, decodeCell[manifest])
	})
}

func FuzzDecodeHolder(f *testing.F) {
	h, _ := json.Marshal(NewHolder("host", 7))
	for _, s := range []string{string(h), `{"id":"x","host":"a\u001b[2Jb"}`, `{"id":"a.>"}`, `{"id":""}`, `7`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHolder(b)
		if err != nil {
			return
		}
		for _, r := range h.ID + h.Host + h.Flight {
			if r <= ' ' || r > '~' {
				t.Fatalf("taken: %+q", h.String())
			}
		}
		if h.ID == "" {
			t.Fatalf("taken: %+v", h)
		}
		survives(t, h, decodeHolder)
	})
}

// survives checks that a value that was read is the same when it is written and read again.
func survives[T any](t *testing.T, v T, decode func([]byte) (T, error)) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		return // a time that JSON does not write
	}
	if again, err := decode(b); err != nil || !reflect.DeepEqual(again, v) {
		t.Fatalf("%+v does not survive: %+v, %v", v, again, err)
	}
}
