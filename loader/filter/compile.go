package filter

import (
	"cmp"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// input is a document.
type input struct {
	*Attributes
	source string
	tokens int64
}

// function computes a value of a document. ok is false if the value cannot be computed: what CEL calls an error.
type function[T any] func(in input) (value T, ok bool)

// compiler compiles an expression that CEL has checked. It knows the functions of newEnv.
type compiler struct {
	expression string
	ast        *ast.AST
	meta       []string // in the order of Attributes.Meta
}

func (c *compiler) errorAt(e ast.Expr, message string) error {
	at := c.ast.SourceInfo().GetStartLocation(e.ID())
	return positionError(c.expression, at.Line(), at.Column(), message)
}

func (c *compiler) kind(e ast.Expr) types.Kind { return c.ast.GetType(e.ID()).Kind() }

// metaIndex returns the index of the value that an expression selects from meta.
func (c *compiler) metaIndex(e ast.Expr) (int, error) {
	if e.AsSelect().Operand().Kind() != ast.IdentKind { // such as (condition ? meta : meta).lang
		return 0, c.errorAt(e, "want a value of meta by its name, such as meta.lang")
	}
	i, _ := slices.BinarySearch(c.meta, e.AsSelect().FieldName())
	return i, nil
}

// value compiles what values of all types have in common: literals, values of meta, and conditions.
func value[T any](c *compiler, e ast.Expr, compile func(ast.Expr) (function[T], error)) (function[T], error) {
	switch e.Kind() {
	case ast.LiteralKind:
		v, ok := e.AsLiteral().Value().(T)
		if !ok {
			break
		}
		return constant(v), nil
	case ast.SelectKind:
		i, err := c.metaIndex(e)
		return metaValue[T](i), err
	case ast.CallKind:
		args := e.AsCall().Args()
		if e.AsCall().FunctionName() != operators.Conditional {
			break
		}
		condition, err := c.boolean(args[0])
		if err != nil {
			return nil, err
		}
		then, otherwise, err := both(args[1], args[2], compile)
		return func(in input) (v T, ok bool) {
			if is, ok := condition(in); !ok {
				return v, false
			} else if is {
				return then(in)
			}
			return otherwise(in)
		}, err
	}
	return nil, c.errorAt(e, "filters cannot compute this")
}

func metaValue[T any](i int) function[T] {
	return func(in input) (v T, ok bool) {
		if in.Meta != nil {
			v, ok = in.Meta[i].(T)
		}
		return v, ok
	}
}

func constant[T any](v T) function[T] { return func(input) (T, bool) { return v, true } }

// both compiles two operands.
func both[T any](a, b ast.Expr, compile func(ast.Expr) (function[T], error)) (x, y function[T], err error) {
	if x, err = compile(a); err == nil {
		y, err = compile(b)
	}
	return x, y, err
}

func (c *compiler) boolean(e ast.Expr) (function[bool], error) {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		i, err := c.metaIndex(e)
		return func(in input) (bool, bool) { return in.Meta != nil && in.Meta[i] != nil, true }, err
	}
	if e.Kind() != ast.CallKind {
		return value(c, e, c.boolean)
	}
	call := e.AsCall()
	args := call.Args()
	switch name := call.FunctionName(); name {
	case operators.LogicalNot:
		x, err := c.boolean(args[0])
		return func(in input) (bool, bool) { v, ok := x(in); return !v, ok }, err
	case operators.LogicalAnd, operators.LogicalOr:
		return c.junction(args, name == operators.LogicalOr)
	case operators.Equals, operators.NotEquals:
		return c.equality(e, args[0], args[1], name == operators.NotEquals)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return c.order(e, name, args[0], args[1])
	case operators.In:
		return c.membership(e, args[0], args[1])
	case overloads.StartsWith, overloads.EndsWith, overloads.Contains:
		x, y, err := both(call.Target(), args[0], c.text)
		test := map[string]func(s, part string) bool{overloads.StartsWith: strings.HasPrefix,
			overloads.EndsWith: strings.HasSuffix, overloads.Contains: strings.Contains}[name]
		return combine(x, y, func(a, b string) (bool, bool) { return test(a, b), true }), err
	case overloads.Matches:
		return c.match(call)
	}
	return value(c, e, c.boolean)
}

// junction compiles && or ||. An operand equal to decides determines the result, even if others are unknown. The
// operands can thus be computed in any order: regular expressions are last.
func (c *compiler) junction(args []ast.Expr, decides bool) (function[bool], error) {
	operands, last := make([]function[bool], 0, len(args)), []function[bool]{}
	for _, arg := range args {
		x, err := c.boolean(arg)
		if err != nil {
			return nil, err
		}
		if hasPattern(arg) {
			last = append(last, x)
		} else {
			operands = append(operands, x)
		}
	}
	operands = append(operands, last...)
	return func(in input) (bool, bool) {
		known := true
		for _, x := range operands {
			v, ok := x(in)
			if ok && v == decides {
				return decides, true
			}
			known = known && ok
		}
		return !decides, known
	}, nil
}

// hasPattern reports whether an expression searches with a regular expression.
func hasPattern(e ast.Expr) bool {
	found := false
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.CallKind && e.AsCall().FunctionName() == overloads.Matches
	}))
	return found
}

// combine computes a value of two others.
func combine[A, B, T any](x function[A], y function[B], f func(A, B) (T, bool)) function[T] {
	return func(in input) (v T, ok bool) {
		a, ok := x(in)
		if !ok {
			return v, false
		}
		b, ok := y(in)
		if !ok {
			return v, false
		}
		return f(a, b)
	}
}

// equality compiles == and !=. CEL has checked that the operands are of one type.
func (c *compiler) equality(e, a, b ast.Expr, differ bool) (function[bool], error) {
	switch c.kind(a) {
	case types.BoolKind:
		return equal(a, b, differ, c.boolean)
	case types.IntKind:
		return equal(a, b, differ, c.integer)
	case types.DoubleKind:
		return equal(a, b, differ, c.double)
	case types.StringKind:
		return equal(a, b, differ, c.text)
	}
	return nil, c.errorAt(e, "filters compare texts, numbers and truth values only")
}

func equal[T comparable](a, b ast.Expr, differ bool, compile func(ast.Expr) (function[T], error)) (function[bool],
	error) {
	x, y, err := both(a, b, compile)
	return combine(x, y, func(a, b T) (bool, bool) { return (a == b) != differ, true }), err
}

// order compiles a comparison of the order of two texts or two numbers.
func (c *compiler) order(e ast.Expr, name string, a, b ast.Expr) (function[bool], error) {
	switch [2]types.Kind{c.kind(a), c.kind(b)} {
	case [2]types.Kind{types.StringKind, types.StringKind}:
		return ordered(name, a, b, c.text, c.text, compare)
	case [2]types.Kind{types.IntKind, types.IntKind}:
		return ordered(name, a, b, c.integer, c.integer, compare)
	case [2]types.Kind{types.DoubleKind, types.DoubleKind}:
		return ordered(name, a, b, c.double, c.double, func(a, b float64) (int, bool) {
			return cmp.Compare(a, b), !math.IsNaN(a) && !math.IsNaN(b)
		})
	case [2]types.Kind{types.IntKind, types.DoubleKind}:
		return ordered(name, a, b, c.integer, c.double, compareMixed)
	case [2]types.Kind{types.DoubleKind, types.IntKind}:
		return ordered(name, a, b, c.double, c.integer, func(a float64, b int64) (int, bool) {
			order, ok := compareMixed(b, a)
			return -order, ok
		})
	}
	return nil, c.errorAt(e, "filters order texts and numbers only")
}

// ordered compiles a comparison. compare returns the order of two values as cmp.Compare does; ok is false if they have
// none.
func ordered[A, B any](name string, a, b ast.Expr, compileA func(ast.Expr) (function[A], error),
	compileB func(ast.Expr) (function[B], error), compare func(A, B) (order int, ok bool)) (function[bool], error) {
	x, err := compileA(a)
	if err != nil {
		return nil, err
	}
	y, err := compileB(b)
	accepts := map[string]func(order int) bool{
		operators.Less:          func(order int) bool { return order < 0 },
		operators.LessEquals:    func(order int) bool { return order <= 0 },
		operators.Greater:       func(order int) bool { return order > 0 },
		operators.GreaterEquals: func(order int) bool { return order >= 0 },
	}[name]
	return combine(x, y, func(a A, b B) (bool, bool) {
		order, ok := compare(a, b)
		return accepts(order), ok
	}), err
}

func compare[T int64 | string](a, b T) (order int, ok bool) { return cmp.Compare(a, b), true }

// compareMixed compares an integer with a number, as exactly as CEL does.
func compareMixed(a int64, b float64) (order int, ok bool) {
	switch {
	case b < math.MinInt64:
		return 1, true
	case b > math.MaxInt64:
		return -1, true
	}
	return cmp.Compare(float64(a), b), !math.IsNaN(b)
}

// membership compiles x in [...].
func (c *compiler) membership(e, a, list ast.Expr) (function[bool], error) {
	if list.Kind() != ast.ListKind {
		return nil, c.errorAt(e, `want a list after in, such as ["en", "de"]`)
	}
	elements := list.AsList().Elements()
	for _, x := range elements {
		if c.kind(x) != c.kind(a) {
			return nil, c.errorAt(x, "want a value of the type that the list is searched for")
		}
	}
	switch c.kind(a) {
	case types.IntKind:
		return member(a, elements, c.integer)
	case types.DoubleKind:
		return member(a, elements, c.double)
	case types.StringKind:
		return member(a, elements, c.text)
	}
	return nil, c.errorAt(e, "filters search texts and numbers only")
}

func member[T comparable](a ast.Expr, elements []ast.Expr, compile func(ast.Expr) (function[T], error)) (function[bool],
	error) {
	x, err := compile(a)
	if err != nil {
		return nil, err
	}
	constants, others := map[T]bool{}, []function[T]{}
	for _, e := range elements {
		y, err := compile(e)
		if err != nil {
			return nil, err
		}
		if e.Kind() == ast.LiteralKind {
			v, _ := y(input{})
			constants[v] = true
		} else {
			others = append(others, y)
		}
	}
	return func(in input) (bool, bool) {
		v, ok := x(in)
		if !ok {
			return false, false
		}
		found := constants[v]
		for _, y := range others {
			w, ok := y(in)
			if !ok {
				return false, false
			}
			found = found || v == w
		}
		return found, true
	}, nil
}

// maxProgram bounds the instructions of a regular expression, each of which may take a step per byte.
const maxProgram = 1000

// match compiles matches, whose regular expression must be constant so that its errors are errors of the configuration.
func (c *compiler) match(call ast.CallExpr) (function[bool], error) {
	operands := call.Args()
	if call.IsMemberFunction() {
		operands = append([]ast.Expr{call.Target()}, operands...)
	}
	pattern := operands[1]
	if pattern.Kind() != ast.LiteralKind {
		return nil, c.errorAt(pattern, "want a regular expression in quotes")
	}
	x, err := c.text(operands[0])
	if err != nil {
		return nil, err
	}
	text := pattern.AsLiteral().Value().(string)
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, c.errorAt(pattern, err.Error())
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, c.errorAt(pattern, "the regular expression is too large")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, c.errorAt(pattern, err.Error())
	}
	matches := matcher(parsed, program, re)
	return func(in input) (bool, bool) {
		s, ok := x(in)
		return ok && matches(s), ok
	}, nil
}

func (c *compiler) text(e ast.Expr) (function[string], error) {
	if e.Kind() == ast.IdentKind {
		switch e.AsIdent() {
		case "id":
			return func(in input) (string, bool) { return in.ID, true }, nil
		case "path":
			return func(in input) (string, bool) { return in.Path, true }, nil
		case "source":
			return func(in input) (string, bool) { return in.source, true }, nil
		}
	}
	return value(c, e, c.text)
}

func (c *compiler) integer(e ast.Expr) (function[int64], error) {
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == "bytes" {
			return func(in input) (int64, bool) { return int64(in.Bytes), true }, nil
		}
		return func(in input) (int64, bool) { return in.tokens, true }, nil
	case ast.CallKind:
		call := e.AsCall()
		args := call.Args()
		if call.FunctionName() == overloads.Size {
			if call.IsMemberFunction() {
				args = []ast.Expr{call.Target()}
			}
			x, err := c.text(args[0])
			return func(in input) (int64, bool) {
				s, ok := x(in)
				return int64(utf8.RuneCountInString(s)), ok
			}, err
		}
		if call.FunctionName() == operators.Negate {
			x, err := c.integer(args[0])
			return combine(constant(int64(0)), x, integerOperators[operators.Subtract]), err
		}
		if f := integerOperators[call.FunctionName()]; f != nil {
			x, y, err := both(args[0], args[1], c.integer)
			return combine(x, y, f), err
		}
	}
	return value(c, e, c.integer)
}

func (c *compiler) double(e ast.Expr) (function[float64], error) {
	if e.Kind() == ast.CallKind {
		call := e.AsCall()
		args := call.Args()
		switch name := call.FunctionName(); name {
		case overloads.TypeConvertDouble:
			x, err := c.integer(args[0])
			return func(in input) (float64, bool) { v, ok := x(in); return float64(v), ok }, err
		case operators.Negate:
			x, err := c.double(args[0])
			return func(in input) (float64, bool) { v, ok := x(in); return -v, ok }, err
		default:
			if f := doubleOperators[name]; f != nil {
				x, y, err := both(args[0], args[1], c.double)
				return combine(x, y, f), err
			}
		}
	}
	return value(c, e, c.double)
}

// integerOperators fail on overflow and division by zero.
var integerOperators = map[string]func(a, b int64) (int64, bool){
	operators.Add:      func(a, b int64) (int64, bool) { v := a + b; return v, (v > a) == (b > 0) },
	operators.Subtract: func(a, b int64) (int64, bool) { v := a - b; return v, (v < a) == (b > 0) },
	operators.Multiply: func(a, b int64) (int64, bool) {
		if b == 0 {
			return 0, true
		}
		v := a * b
		return v, v/b == a && !(b == -1 && a == math.MinInt64)
	},
	operators.Divide: func(a, b int64) (int64, bool) {
		if b == 0 || a == math.MinInt64 && b == -1 {
			return 0, false
		}
		return a / b, true
	},
	operators.Modulo: func(a, b int64) (int64, bool) {
		if b == 0 || a == math.MinInt64 && b == -1 {
			return 0, false
		}
		return a % b, true
	},
}

// doubleOperators follow IEEE 754. They are called through pointers, so that no processor fuses two operations.
var doubleOperators = map[string]func(a, b float64) (float64, bool){
	operators.Add:      func(a, b float64) (float64, bool) { return a + b, true },
	operators.Subtract: func(a, b float64) (float64, bool) { return a - b, true },
	operators.Multiply: func(a, b float64) (float64, bool) { return a * b, true },
	operators.Divide:   func(a, b float64) (float64, bool) { return a / b, true },
}
