package arrowout

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"loaderd/arrowout/internal/action"
	"loaderd/arrowout/internal/batch"
	"loaderd/internal/api"
	"loaderd/internal/auth"
)

// tableOf returns the rows of the first table in a section of docs/reference/wire.md, cell by cell, without the header.
func tableOf(t *testing.T, page, section string) (rows [][]string) {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/reference/wire.md has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	_, rest, _ = strings.Cut(rest, "| ---")
	for line := range strings.Lines(rest) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") {
			cells[0] = strings.TrimPrefix(cells[0], "| ")
			rows = append(rows, cells)
		} else if len(rows) > 0 {
			break
		}
	}
	return rows
}

var quoted = regexp.MustCompile("`([^`]*)`")

// quotedIn returns the names in code spans of a cell.
func quotedIn(cell string) (names []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// keysOf returns the JSON keys of a struct, in order.
func keysOf(v any) (keys []string) {
	for f := range reflect.TypeOf(v).Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}

// written returns a type in the notation of docs/reference/wire.md.
func written(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.ListType:
		return "list<" + written(t.Elem()) + ">"
	case *arrow.StructType:
		var fields []string
		for _, f := range t.Fields() {
			fields = append(fields, f.Name+": "+written(f.Type))
		}
		return "struct<" + strings.Join(fields, ", ") + ">"
	}
	return t.Name()
}

// docs/reference/wire.md lists every key of a ticket and of the metadata, every column with its type, and every action
// with its keys and role, and no others.
func TestWirePage_MatchesCode(t *testing.T) {
	raw, err := os.ReadFile("../docs/reference/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	same := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("docs/reference/wire.md has %s\n%q, the code has\n%q", what, got, want)
		}
	}
	first := func(section string) (names []string) {
		for _, row := range tableOf(t, page, section) {
			names = append(names, quotedIn(row[0])...)
		}
		return names
	}
	same("keys of a ticket", first("Tickets"), keysOf(api.Ticket{}))
	same("keys of the metadata", first("Metadata"), keysOf(api.Metadata{}))

	var columns, wantColumns []string
	for _, row := range tableOf(t, page, "Columns") {
		if names := quotedIn(row[0]); strings.HasPrefix(row[0], "`") {
			columns = append(columns, names[0]+" "+strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(row[1]))
		}
	}
	for _, c := range batch.AllColumns {
		wantColumns = append(wantColumns, c.TicketName+" "+written(c.Type))
	}
	same("columns", columns, wantColumns)

	var named []string
	for i, row := range tableOf(t, page, "Actions") {
		named = append(named, quotedIn(row[0])...)
		if i >= len(action.All) {
			break
		}
		body := strings.Join(quotedIn(row[1]), " ")
		for key := range strings.FieldsSeq(action.All[i].Keys) {
			key, _, _ = strings.Cut(strings.TrimSuffix(key, "?"), ":")
			if !strings.Contains(body, fmt.Sprintf("%q", key)) {
				t.Errorf("docs/reference/wire.md does not state that %s takes %s", action.All[i].Name, key)
			}
		}
	}
	want := make([]string, len(action.All))
	for i, a := range action.All {
		want[i] = a.Name
	}
	if !slices.Equal(named, want) {
		t.Errorf("docs/reference/wire.md has the actions\n%q, the code has\n%q", named, want)
	}
	_, roles, _ := strings.Cut(page, "Identities need a role: ")
	roles, _, _ = strings.Cut(roles, "`operate` for all others")
	of := map[string]auth.Role{}
	for role, list := range map[string]string{"read": strings.Split(roles, "`train` for")[0],
		"train": roles[strings.Index(roles, "`train` for"):]} {
		for _, name := range quotedIn(list)[1:] {
			of[name] = auth.Role(role)
		}
	}
	byBody := []string{"mix", "filter", "schedule"} // their roles depend on their bodies
	for _, a := range action.All {
		role, listed := of[a.Name]
		if !slices.Contains(byBody, a.Name) && (listed && role != a.Role || !listed && a.Role != auth.Operate) {
			t.Errorf("docs/reference/wire.md states that %s takes %q, it takes %q", a.Name, role, a.Role)
		}
	}
}
