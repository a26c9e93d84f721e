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
	for _, m := range metrics {
		name := strings.Split(m.desc.String(), `"`)[1]
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/operations.md lacks %s", name)
		}
	}
}
