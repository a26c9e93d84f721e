// Package fuzztest has checks that fuzz targets share.
package fuzztest

import (
	"encoding/json"
	"reflect"
	"testing"
)

// RoundTrip checks that a decoded value is the same after it is encoded and decoded again.
func RoundTrip[T any](t *testing.T, v T, decode func([]byte) (T, error)) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		return // a time that JSON does not encode
	}
	if again, err := decode(b); err != nil || !reflect.DeepEqual(again, v) {
		t.Fatalf("%+v is %+v after a round trip, %v", v, again, err)
	}
}
