package daemon

import (
	"os"
	"strings"
	"testing"
)

// Every metric of a run stands in the operator's page.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(m interface{ String() string }, labels string) {
		name := strings.Split(m.String(), `"`)[1] + labels
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/operations.md lacks %s", name)
		}
	}
	for _, m := range metrics {
		documented(m.desc, "")
	}
	for _, m := range bucketMetrics {
		documented(m.desc, "{bucket}")
	}
}
