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
	ast  *ast.AST
	meta []string // in the order of Attributes.Meta
}

func (c *compiler) errorAt(e ast.Expr, message string) error {
	at := c.ast.SourceInfo().GetStartLocation(e.ID())
	return positionError("", at.Line(), at.Column(), message)
}

func (c *compiler) kind(e ast.Expr) types.Kind { return c.ast.GetType(e.ID()).Kind() }

// metaIndex returns the index of the value that an expression selects.
func (c *compiler) metaIndex(e ast.Expr) int {
	i, _ := slices.BinarySearch(c.meta, e.AsSelect().FieldName())
	return i
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
		return metaValue[T](c.metaIndex(e)), nil
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
		i := c.metaIndex(e)
		return func(in input) (bool, bool) { return in.Meta != nil && in.Meta[i] != nil, true }, nil
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

// junction compiles && or ||. An operand equal to decides determines the result, whatever the others are.
func (c *compiler) junction(args []ast.Expr, decides bool) (function[bool], error) {
	operands := make([]function[bool], len(args))
	for i, arg := range args {
		var err error
		if operands[i], err = c.boolean(arg); err != nil {
			return nil, err
		}
	}
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
	left, right := c.kind(a), c.kind(b)
	switch {
	case left == types.StringKind && right == types.StringKind:
		x, y, err := both(a, b, c.text)
		return ordered(name, x, y), err
	case left == types.IntKind && right == types.IntKind:
		x, y, err := both(a, b, c.integer)
		return ordered(name, x, y), err
	case left == types.DoubleKind && right == types.DoubleKind:
		x, y, err := both(a, b, c.double)
		return combine(x, y, func(a, b float64) (bool, bool) {
			return inOrder(name, cmp.Compare(a, b)), !math.IsNaN(a) && !math.IsNaN(b)
		}), err
	case left == types.IntKind && right == types.DoubleKind:
		x, err := c.integer(a)
		if err != nil {
			return nil, err
		}
		y, err := c.double(b)
		return combine(x, y, func(a int64, b float64) (bool, bool) {
			return inOrder(name, compareMixed(a, b)), !math.IsNaN(b)
		}), err
	case left == types.DoubleKind && right == types.IntKind:
		x, err := c.double(a)
		if err != nil {
			return nil, err
		}
		y, err := c.integer(b)
		return combine(x, y, func(a float64, b int64) (bool, bool) {
			return inOrder(name, -compareMixed(b, a)), !math.IsNaN(a)
		}), err
	}
	return nil, c.errorAt(e, "filters order texts and numbers only")
}

func ordered[T int64 | string](name string, x, y function[T]) function[bool] {
	return combine(x, y, map[string]func(a, b T) (bool, bool){
		operators.Less:          func(a, b T) (bool, bool) { return a < b, true },
		operators.LessEquals:    func(a, b T) (bool, bool) { return a <= b, true },
		operators.Greater:       func(a, b T) (bool, bool) { return a > b, true },
		operators.GreaterEquals: func(a, b T) (bool, bool) { return a >= b, true },
	}[name])
}

// inOrder reports whether the result of a comparison is what an operator requires.
func inOrder(name string, order int) bool {
	switch name {
	case operators.Less:
		return order < 0
	case operators.LessEquals:
		return order <= 0
	case operators.Greater:
		return order > 0
	}
	return order >= 0
}

// compareMixed compares an integer with a number that is not NaN, as exactly as CEL does.
func compareMixed(a int64, b float64) int {
	switch {
	case b < math.MinInt64:
		return 1
	case b > math.MaxInt64:
		return -1
	}
	return cmp.Compare(float64(a), b)
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
	return func(in input) (bool, bool) {
		s, ok := x(in)
		return ok && re.MatchString(s), ok
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
		if a == 0 || b == 0 {
			return 0, true
		}
		v := a * b
		return v, v/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64)
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
