package jsonvalue

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// byStandardLibrary reads an object as encoding/json does, with empty objects in place of NaN and the infinities.
func byStandardLibrary(raw []byte) (fields map[string]json.RawMessage, err error) {
	if err = json.Unmarshal(raw, &fields); err == nil {
		return fields, nil
	}
	if finite := bytes.Clone(raw); replaceInfinities(finite) {
		fields = nil
		err = json.Unmarshal(finite, &fields)
	}
	return fields, err
}

// FuzzObject compares an object, its texts and its lists with the result of encoding/json for the same bytes.
func FuzzObject(f *testing.F) {
	for _, s := range []string{
		`{"text":"a"}`, `{"a":1,"a":"b","\u0061":null}`, `{"text":`, `{}x`, `null`,
		` {"a" : [ 1 , "]" , {"b":"}"} ] } `, `{"a":NaN,"b":[-Infinity,{"c":Infinity}],"d":"NaN \" Infinity"}`,
		`{"a":-NaN}`, `{NaN:1}`, `NaN`, `[NaN]`, `{"a":01}`, `{"a":1.}`,
		`{"text":"\ud800\u0041\udc00 \ud83d\ude00 \/\b\f\n\r\t\"\\"}`, `{"text":"\ud800\ud83d\ude00\ud800"}`,
		`{"te` + "\xff" + `":"` + "\xf0\x9f" + `"}`, "{\"a\":\"\x01\"}", `{"a":"\x"}`, `{"a":1,}`, `{"a" 1}`, `{1:2}`,
		`"a"`, `[]`, `1`, `true`, "", `{"a":[1,-0,1e5,null]}`, "\ufeff{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, wantErr := byStandardLibrary(raw)
		got, err := ReadObject(bytes.Clone(raw))
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%q: error %v, want %v", raw, err, wantErr)
		}
		if err != nil {
			return
		}
		if names := got.Names(); len(names) != len(want) {
			t.Fatalf("%q: fields %q, want %d", raw, names, len(want))
		}
		for name, value := range want {
			if !bytes.Equal(got.Value(name), value) {
				t.Fatalf("%q: field %q is %q, want %q", raw, name, got.Value(name), value)
			}
			compareText(t, value)
			compareList(t, value)
		}
	})
}

func compareText(t *testing.T, value []byte) {
	t.Helper()
	var want string
	if value[0] != '"' || json.Unmarshal(value, &want) != nil {
		return
	}
	if got := Unquote(value); string(got) != want {
		t.Fatalf("%q: text %q, want %q", value, got, want)
	}
}

func compareList(t *testing.T, value []byte) {
	t.Helper()
	var want, got []json.RawMessage
	wantErr := json.Unmarshal(value, &want)
	err := EachElement(value, func(element []byte) error {
		got = append(got, element)
		return nil
	})
	if string(value) == "null" { // nil for encoding/json
		return
	}
	equal := func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }
	if (err == nil) != (wantErr == nil) || err == nil && !slices.EqualFunc(got, want, equal) {
		t.Fatalf("%q: list %q, %v, want %q, %v", value, got, err, want, wantErr)
	}
}

func TestObject_DepthIsBounded(t *testing.T) {
	for depth, accepted := range map[int]bool{1000: true, 9_000: true, 11_000: false} {
		raw := []byte(`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}")
		if _, err := ReadObject(raw); (err == nil) != accepted {
			t.Errorf("%d lists in each other: %v", depth, err)
		}
	}
}
