package jsonvalue

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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
			compareReadText(t, raw, name, value)
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

// compareReadText compares the text of a field that is read together with its object, which is nil if it is not read.
func compareReadText(t *testing.T, raw []byte, name string, value []byte) (text []byte) {
	t.Helper()
	if !utf8.Valid(raw) {
		return nil
	}
	o, text, err := ReadObjectText(bytes.Clone(raw), name)
	if err != nil || !bytes.Equal(o.Value(name), value) {
		t.Fatalf("%q: field %q is %q, %v, want %q", raw, name, o.Value(name), err, value)
	}
	if text != nil && (value[0] != '"' || !bytes.Equal(text, Unquote(value))) {
		t.Fatalf("%q: text %q of %q", raw, text, value)
	}
	return text
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

// Strings are scanned and decoded by words, wherever an escape, the end or an invalid byte is.
func TestObject_SpecialBytesAtAnyOffset(t *testing.T) {
	for _, special := range []string{
		``, `\n`, `\n\t\\\"`, `\u0041`, `\ud83d\ude00`, `\ud83d`, `\ud83d\u0041`, `\ude00`, // escapes
		`\x`, `\u00g0`, `\u00`, `\`, "\x1f", "\x00", // invalid
		"é\\n", "\xff", "\xff\\n", `"`, `","b":"`,
	} {
		for before := range 20 {
			for after := range 20 {
				raw := []byte(`{"a":"` + strings.Repeat("x", before) + special + strings.Repeat("y", after) + `"}`)
				want, wantErr := byStandardLibrary(raw)
				got, err := ReadObject(bytes.Clone(raw))
				if (err == nil) != (wantErr == nil) {
					t.Fatalf("%q: error %v, want %v", raw, err, wantErr)
				}
				for name, value := range want {
					if !bytes.Equal(got.Value(name), value) {
						t.Fatalf("%q: field %q is %q, want %q", raw, name, got.Value(name), value)
					}
					compareText(t, value)
					if text := compareReadText(t, raw, name, value); text == nil && utf8.Valid(raw) {
						t.Fatalf("%q: no text of field %q", raw, name)
					}
				}
			}
		}
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

// BenchmarkReadObject reads the text of a line of JSON lines, with a common object's scanner and with jsontext.
func BenchmarkReadObject(b *testing.B) {
	text := strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", name, err)\n\t}\n", 100)
	quoted, err := json.Marshal(map[string]string{"id": "a", "text": text})
	if err != nil {
		b.Fatal(err)
	}
	for name, scan := range map[string]func([]byte) (Object, error){
		"jsontext": scanObject,
		"common":   ReadObject,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if o, err := scan(quoted); err != nil || o.Value("text") == nil {
					b.Fatal(o, err)
				}
			}
		})
	}
	b.Run("unquote/jsontext", func(b *testing.B) {
		value, _ := ReadObject(quoted)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			_, _ = jsontext.AppendUnquote(nil, value.Value("text"))
		}
	})
	b.Run("unquote", func(b *testing.B) {
		value, _ := ReadObject(quoted)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			_ = Unquote(value.Value("text"))
		}
	})
}

// Repeated fields do not each cost memory for the rest of the object.
func TestReadObjectText_RepeatedFields(t *testing.T) {
	raw := []byte("{" + strings.Repeat(`"text": "a", `, 60) + `"text": "b", "more": "` + strings.Repeat("x", 1<<20) + `"}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o, text, err := ReadObjectText(raw, "text")
	runtime.ReadMemStats(&after)
	if err != nil || string(o.Value("text")) != `"b"` || text != nil && string(text) != "b" {
		t.Errorf("text %q of %q, %v", text, o.Value("text"), err)
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 4<<20 {
		t.Errorf("%d bytes for an object of %d bytes", bytes, len(raw))
	}
}
