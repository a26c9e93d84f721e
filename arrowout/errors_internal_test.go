package arrowout

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"loaderd/loader/fault"
)

// reasonsIn returns the constants of type Reason that a source file declares.
func reasonsIn(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil || !strings.HasSuffix(exprName(spec.Type), "Reason") {
			return true
		}
		for _, v := range spec.Values {
			name, _ := strconv.Unquote(v.(*ast.BasicLit).Value)
			reasons[name] = true
		}
		return true
	})
	return reasons
}

func exprName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func TestErrorPage_HasEveryReasonWithItsCode(t *testing.T) {
	want := reasonsIn(t, "../loader/fault/fault.go")
	doc, err := os.ReadFile("../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| ([A-Z_]+) \\|").FindAllStringSubmatch(string(doc),
		-1) {
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(strconv.Quote(row[2]))); err != nil {
			t.Errorf("%s: %v", row[1], err)
		}
		if got := Code(fault.Reason(row[1])); got != code {
			t.Errorf("%s: documented as %s, sent as %s", row[1], code, got)
		}
		listed[row[1]] = true
	}
	for r := range want {
		if !listed[r] {
			t.Errorf("docs/reference/errors.md lacks %s", r)
		}
	}
	for r := range listed {
		if !want[r] {
			t.Errorf("docs/reference/errors.md has %s, which nothing sends", r)
		}
	}
}

// The remedy of every reason is found by its name.
func TestTroubleshootingPage_HasHeadingPerReason(t *testing.T) {
	want := reasonsIn(t, "../loader/fault/fault.go")
	page, err := os.ReadFile("../docs/how-to/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, heading := range regexp.MustCompile("(?m)^### ([A-Z_]+)$").FindAllStringSubmatch(string(page), -1) {
		have = append(have, heading[1])
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), have); diff != "" {
		t.Errorf("headings of docs/how-to/troubleshooting.md, -want +got:\n%s", diff)
	}
}

func TestStatus_KeepsFirstFactsByName(t *testing.T) {
	facts := map[string]string{}
	for i := range 2 * maxFacts {
		facts[fmt.Sprintf("fact%02d", i)] = "x"
	}
	s := statusOf(&fault.Error{Reason: fault.SourceDown, Facts: facts}, 1)
	have := slices.Sorted(maps.Keys(s.Details()[0].(*errdetails.ErrorInfo).Metadata))
	if want := slices.Sorted(maps.Keys(facts))[:maxFacts]; !slices.Equal(have, want) {
		t.Errorf("the status has %v, want %v", have, want)
	}
}

func TestStatus_IsBoundedAndOmitsSecrets(t *testing.T) {
	facts := map[string]string{}
	for i := range 50 {
		facts[fmt.Sprint("fact", i, strings.Repeat("é", 500))] = strings.Repeat("x\xff", 5000)
	}
	s := statusOf(&fault.Error{Reason: fault.SourceDown, Message: strings.Repeat("é", 9000), Facts: facts,
		Err: errors.New("nats://user:hunter2@host")}, 1)
	b, err := proto.Marshal(s.Proto())
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 6000 || !utf8.ValidString(s.Message()) {
		t.Errorf("a status of %d bytes, valid UTF-8: %v", len(b), utf8.ValidString(s.Message()))
	}
	if strings.Contains(s.String(), "hunter2") {
		t.Error("the cause below the error travels")
	}
	s = statusOf(errors.New("open /etc/secret"), 42)
	if s.Code() != codes.Internal || strings.Contains(s.String(), "secret") || !strings.Contains(s.Message(), "call=42") {
		t.Errorf("an error without a reason became %v", s)
	}
	if info := s.Details()[0].(*errdetails.ErrorInfo); info.Reason != "INTERNAL" || info.Metadata["call"] != "42" {
		t.Errorf("got %v", info)
	}
}
