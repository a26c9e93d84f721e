package plan_test

import (
	"encoding/json"
	"testing"

	"loaderd/loader/plan"
)

func TestSkips_JSONHasEveryReason(t *testing.T) {
	var s plan.Skips
	s.Add(plan.SkipMasked, 20)
	s.Add(plan.SkipUndecodable, 1)
	b, err := json.Marshal(s)
	if want := `{"duplicate":0,"empty":0,"filtered":0,"long":0,"masked":20,"short":0,"split":0,"undecodable":1}`; err != nil ||
		string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
	var back plan.Skips
	if err := json.Unmarshal(b, &back); err != nil || back != s {
		t.Errorf("%v, %v, want %v", back, err, s)
	}
	for _, bad := range []string{`{"lost":1}`, `{"masked":-1}`, `{"":1}`, `[1]`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is read as %v", bad, back)
		}
	}
	if want := "1 undecodable, 20 without a token that has a loss"; s.String() != want || s.Total() != 21 {
		t.Errorf("%q, %d, want %q", s, s.Total(), want)
	}
}

func TestSkips_EveryReasonHasTexts(t *testing.T) {
	seen := map[string]bool{}
	for why, n := range (plan.Skips{}).All() {
		if why == "" || why.Text() == "" || why.Do() == "" || seen[why.Text()] || n != 0 {
			t.Errorf("reason %q: text %q, do %q", why, why.Text(), why.Do())
		}
		seen[why.Text()] = true
	}
}
