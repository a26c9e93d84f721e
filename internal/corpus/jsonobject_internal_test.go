package corpus

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

// FuzzObject compares an object, its texts and its lists with what encoding/json reads of the same bytes.
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
		got, err := readObject(bytes.Clone(raw))
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%q: error %v, want %v", raw, err, wantErr)
		}
		if err != nil {
			return
		}
		if names := got.names(); len(names) != len(want) {
			t.Fatalf("%q: fields %q, want %d", raw, names, len(want))
		}
		for name, value := range want {
			if !bytes.Equal(got.value(name), value) {
				t.Fatalf("%q: field %q is %q, want %q", raw, name, got.value(name), value)
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
	if got, err := text(value); err != nil || string(got) != want {
		t.Fatalf("%q: text %q, %v, want %q", value, got, err, want)
	}
}

func compareList(t *testing.T, value []byte) {
	t.Helper()
	var want, got []json.RawMessage
	wantErr := json.Unmarshal(value, &want)
	err := eachElement(value, func(element []byte) error {
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

func TestObject_Depth(t *testing.T) {
	for depth, accepted := range map[int]bool{1000: true, 9_000: true, 11_000: false} {
		raw := []byte(`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}")
		if _, err := readObject(raw); (err == nil) != accepted {
			t.Errorf("%d lists in each other: %v", depth, err)
		}
	}
}

func TestTokens_ErrorNamesToken(t *testing.T) {
	for list, want := range map[string]string{
		`[1,-1]`:         "token 1: id -1 does not fit 31 bits",
		`[1, 2, null]`:   "token 2 is null",
		`[[1,2],"a,b"]`:  "token 0: [1,2] is not an integer",
		`[0,2147483648]`: "token 1: id 2147483648 does not fit 31 bits",
		`"1"`:            "not a list of token ids",
	} {
		if ids, err := tokens([]byte(list)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, %v, want %s", list, ids, err, want)
		}
	}
}

func TestMDS_JSONColumnIsChecked(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		o := Options{Tokens: tokens}
		for _, data := range []string{`"a`, `"a"b`, `"a\x"`, `[1,2`, `[1,2]]`, `[1,2] 3`, `{`, ``} {
			if got, err := o.mdsContent("json", []byte(data)); err == nil {
				t.Errorf("%s with tokens %v is read as %q", data, tokens, got)
			}
		}
	}
	if got, err := (Options{}).mdsContent("json", []byte(`"a\n" `)); err != nil || string(got) != "a\n" {
		t.Errorf("%q, %v", got, err)
	}
}
