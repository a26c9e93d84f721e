package record_test

import (
	"testing"

	"loaderd/internal/corpus/record"
)

func TestTokens_ErrorNamesToken(t *testing.T) {
	for list, want := range map[string]string{
		`[1,-1]`:         "token 1: id -1 does not fit 31 bits",
		`[1, 2, null]`:   "token 2 is null",
		`[[1,2],"a,b"]`:  "token 0: [1,2] is not an integer",
		`[0,2147483648]`: "token 1: id 2147483648 does not fit 31 bits",
		`"1"`:            "not a list of token ids",
	} {
		if ids, err := record.DecodeTokens([]byte(list)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, %v, want %s", list, ids, err, want)
		}
	}
}
