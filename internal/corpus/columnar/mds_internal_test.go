package columnar

import (
	"testing"

	"loaderd/internal/corpus/record"
)

func TestMDS_RefusesInvalidJSONColumn(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		o := mdsDecoder{Columns: record.Columns{Tokens: tokens}}
		for _, data := range []string{`"a`, `"a"b`, `"a\x"`, `[1,2`, `[1,2]]`, `[1,2] 3`, `{`, ``} {
			if got, err := o.decodeContent("json", []byte(data)); err == nil {
				t.Errorf("%s with tokens %v is read as %q", data, tokens, got)
			}
		}
	}
	if got, err := (mdsDecoder{}).decodeContent("json", []byte(`"a\n" `)); err != nil || string(got) != "a\n" {
		t.Errorf("%q, %v", got, err)
	}
}
