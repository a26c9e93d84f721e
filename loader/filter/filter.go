// Package filter compiles the expressions that select documents. It parses and checks them with CEL, and compiles the
// checked expression into functions of Go, because CEL's interpreter takes longer for a document than the planner.
package filter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// Attributes are the fields of a document that a filter can use, in addition to its source and its length in tokens.
type Attributes struct {
	ID   string // producer's id, empty for none
	Path string // path at its origin, empty for none
	// Bytes is the size of the document as it arrived: of its text, or of its ids with 4 bytes each.
	Bytes int
	// Meta are the document's values in the order of the names, sorted: strings, int64s, float64s, or nil for none. It is
	// nil if the document has none.
	Meta []any
}

// MaxTextBytes is the maximum length of an id and a path in bytes. Filters ignore the rest.
const MaxTextBytes = 4 << 10

// Truncate returns the part of an id or a path that filters use.
func Truncate(text string) string {
	if len(text) <= MaxTextBytes {
		return text
	}
	return strings.Clone(text[:MaxTextBytes])
}

// Limits of an expression. They bound the time that a filter takes for a document.
const (
	MaxExpression = 4 << 10 // bytes
	maxNodes      = 1000
	maxDepth      = 100
)

// Filter is a compiled expression. A nil Filter matches every document. It is safe for concurrent use.
type Filter struct {
	text    string
	matches function[bool]
}

// Text returns the expression, empty for a filter that matches every document.
func (f *Filter) Text() string {
	if f == nil {
		return ""
	}
	return f.text
}

var noAttributes Attributes

// Matches reports whether the expression is true for a document of a source with the given number of tokens. An
// expression that needs a missing value, divides by zero or overflows is neither true nor false, and does not match. As
// in SQL, false && and true || decide the result without such an operand. a may be nil.
func (f *Filter) Matches(a *Attributes, source string, tokens int) bool {
	if f == nil {
		return true
	}
	if a == nil {
		a = &noAttributes
	}
	matches, known := f.matches(input{a, source, int64(tokens)})
	return matches && known
}

// Compile compiles an expression over documents with the given types of meta values by name: string, int64 or float64.
// It returns nil for an empty expression. Its errors state the column of the expression.
func Compile(expression string, meta map[string]string) (*Filter, error) {
	if expression == "" {
		return nil, nil
	}
	if len(expression) > MaxExpression {
		return nil, fmt.Errorf("the expression has %d bytes, at most %d are possible", len(expression), MaxExpression)
	}
	e, err := newEnv(meta)
	if err != nil {
		return nil, fmt.Errorf("declare the fields of filters: %w", err)
	}
	checked, issues := e.Compile(expression)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, positionError(expression, first.Location.Line(), first.Location.Column(), explain(first.Message, meta))
	}
	c := compiler{expression: expression, ast: checked.NativeRep(), meta: slices.Sorted(maps.Keys(meta))}
	if t := checked.OutputType(); t.Kind() != types.BoolKind {
		return nil, fmt.Errorf("the expression is of type %s: want true or false, such as tokens >= 64", t)
	}
	matches, err := c.boolean(c.ast.Expr())
	if err != nil {
		return nil, err
	}
	return &Filter{text: expression, matches: matches}, nil
}

const metaType = "meta"

// newEnv returns the environment that checks expressions: the fields of documents, and the functions that compiler
// knows. All of them are pure and take a time linear in their operands. The only macro is has.
func newEnv(meta map[string]string) (*cel.Env, error) {
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{IncludeMacros: []string{operators.Has}, IncludeFunctions: functions})),
		cel.CustomTypeProvider(metaProvider{types.NewEmptyRegistry(), meta}),
		cel.Variable("id", cel.StringType), cel.Variable("path", cel.StringType), cel.Variable("source", cel.StringType),
		cel.Variable("bytes", cel.IntType), cel.Variable("tokens", cel.IntType),
		cel.Variable("meta", cel.ObjectType(metaType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxExpression), cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes), cel.ExpressionNestingDepthLimit(maxDepth),
	)
}

// functions are the functions of CEL's standard library that expressions may use.
var functions = []*env.Function{
	withOverloads(operators.LogicalAnd), withOverloads(operators.LogicalOr), withOverloads(operators.LogicalNot),
	withOverloads(operators.Conditional), withOverloads(operators.Equals), withOverloads(operators.NotEquals),
	withOverloads(operators.Less, overloads.LessInt64, overloads.LessDouble, overloads.LessString,
		overloads.LessInt64Double, overloads.LessDoubleInt64),
	withOverloads(operators.LessEquals, overloads.LessEqualsInt64, overloads.LessEqualsDouble, overloads.LessEqualsString,
		overloads.LessEqualsInt64Double, overloads.LessEqualsDoubleInt64),
	withOverloads(operators.Greater, overloads.GreaterInt64, overloads.GreaterDouble, overloads.GreaterString,
		overloads.GreaterInt64Double, overloads.GreaterDoubleInt64),
	withOverloads(operators.GreaterEquals, overloads.GreaterEqualsInt64, overloads.GreaterEqualsDouble,
		overloads.GreaterEqualsString, overloads.GreaterEqualsInt64Double, overloads.GreaterEqualsDoubleInt64),
	withOverloads(operators.Add, overloads.AddInt64, overloads.AddDouble),
	withOverloads(operators.Subtract, overloads.SubtractInt64, overloads.SubtractDouble),
	withOverloads(operators.Multiply, overloads.MultiplyInt64, overloads.MultiplyDouble),
	withOverloads(operators.Divide, overloads.DivideInt64, overloads.DivideDouble),
	withOverloads(operators.Modulo, overloads.ModuloInt64),
	withOverloads(operators.Negate, overloads.NegateInt64, overloads.NegateDouble),
	withOverloads(operators.In, overloads.InList),
	withOverloads(overloads.StartsWith), withOverloads(overloads.EndsWith), withOverloads(overloads.Contains),
	withOverloads(overloads.Matches, overloads.MatchesString),
	withOverloads(overloads.Size, overloads.SizeString, overloads.SizeStringInst),
	withOverloads(overloads.TypeConvertDouble, overloads.IntToDouble),
}

// withOverloads names a function of the standard library with the given overloads, or with all of them.
func withOverloads(name string, ids ...string) *env.Function {
	f := env.NewFunction(name)
	for _, id := range ids {
		f.Overloads = append(f.Overloads, env.NewOverload(id, nil, nil))
	}
	return f
}

// metaProvider declares the meta values as the fields of an object, so that CEL checks their names and types.
type metaProvider struct {
	types.Provider
	meta map[string]string
}

// FindStructType implements types.Provider.
func (p metaProvider) FindStructType(name string) (*types.Type, bool) {
	if name == metaType {
		return types.NewTypeTypeWithParam(types.NewObjectType(metaType)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldType implements types.Provider.
func (p metaProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != metaType {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := map[string]*types.Type{
		"string": types.StringType, "int64": types.IntType, "float64": types.DoubleType,
	}[p.meta[field]]
	return &types.FieldType{Type: t}, ok
}

// explain replaces what CEL reports of an unknown name by the names that exist.
func explain(message string, meta map[string]string) string {
	if name, ok := strings.CutPrefix(message, "undeclared reference to '"); ok {
		name, _, _ = strings.Cut(name, "'")
		return fmt.Sprintf("unknown name %s: documents have id, path, source, bytes, tokens and meta.NAME", name)
	}
	if name, ok := strings.CutPrefix(message, "undefined field '"); ok {
		name, _, _ = strings.Cut(name, "'")
		if len(meta) == 0 {
			return fmt.Sprintf("unknown value meta.%s: declare it in documents.meta, which is empty", name)
		}
		return fmt.Sprintf("unknown value meta.%s: declare it in documents.meta, which has %s", name,
			strings.Join(slices.Sorted(maps.Keys(meta)), ", "))
	}
	return message
}

// positionError returns an error about the part of an expression at a line, from 1 on, and a column, from 0 on, in
// characters.
func positionError(expression string, line, column int, message string) error {
	lines := strings.Split(expression, "\n")
	rest := []rune(lines[min(max(line-1, 0), len(lines)-1)])
	rest = rest[min(max(column, 0), len(rest)):]
	const most = 24
	at := fmt.Sprintf("column %d", column+1)
	if len(lines) > 1 {
		at = fmt.Sprintf("line %d, %s", line, at)
	}
	if len(rest) > most {
		rest = append(rest[:most:most], []rune("...")...)
	}
	return fmt.Errorf("%s (%q): %s", at, string(rest), message)
}
