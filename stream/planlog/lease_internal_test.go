package planlog

import (
	"encoding/json"
	"testing"
)

func FuzzLeaseWord(f *testing.F) {
	f.Add([]byte(`{"id":"a","leading":true,"holder":{"host":"h","pid":1,"started":"2026-01-02T03:04:05Z","flight":"f"}}`))
	f.Add([]byte(`{"id":""}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := decodeLeaseWord(b)
		if err != nil {
			return
		}
		if w.ID == "" {
			t.Fatal("a word without an id")
		}
		again, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if x, err := decodeLeaseWord(again); err != nil || x.ID != w.ID || x.Leading != w.Leading {
			t.Fatalf("%+v became %+v, %v", w, x, err)
		}
	})
}
