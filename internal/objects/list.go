package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// List returns the objects of a pattern, sorted by their URLs. * matches any characters except /, ** any folders, ?
// one character, {a,b} either, and [a-z] one of these. A pattern without these characters names one object, or all
// below a folder. If nothing matches, it returns an error of kind Missing.
func (s *Stores) List(ctx context.Context, pattern string) (all []Object, err error) {
	a, err := parse(pattern)
	if err != nil {
		return nil, err
	}
	if a.bucket == "" {
		o, err := s.statAddress(ctx, pattern)
		return []Object{o}, err
	}
	if !doublestar.ValidatePattern(a.name) {
		return nil, fmt.Errorf("%s: the pattern has a bracket that is not closed", pattern)
	}
	st, err := s.store(ctx, a)
	if err != nil {
		return nil, err
	}
	err = s.retry(ctx, "list "+pattern, func() error {
		all = all[:0]
		return st.list(ctx, literalPrefix(a.name), func(name string, o Object) error {
			if a.isMatch(name) && name != "" && !strings.HasSuffix(name, "/") && !isHidden(name, a.name) {
				o.URL = a.url(name)
				all = append(all, o)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, &Error{Kind: NotFound, URL: pattern, Err: fmt.Errorf("no object matches"),
			hint: "list the bucket with its own tool to see the names of its objects"}
	}
	slices.SortFunc(all, func(x, y Object) int { return cmp.Compare(x.URL, y.URL) })
	return slices.CompactFunc(all, func(x, y Object) bool { return x.URL == y.URL }), nil
}

// isMatch reports whether a name matches the address.
func (a address) isMatch(name string) bool {
	if !isGlob(a.name) {
		return name == a.name || strings.HasPrefix(name, folderPrefix(a.name))
	}
	pattern := a.name
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	hit, err := doublestar.Match(pattern, name)
	return err == nil && hit
}

// folderPrefix returns a name as the prefix of the names below it.
func folderPrefix(name string) string {
	if name == "" || strings.HasSuffix(name, "/") {
		return name
	}
	return name + "/"
}

// isGlob reports whether a name contains pattern characters.
func isGlob(name string) bool { return strings.ContainsAny(name, `*?[{\`) }

// literalPrefix returns the part of a pattern before its first pattern character.
func literalPrefix(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// isHidden reports whether an element of the name starts with a dot or an underscore, and the pattern does not match
// such names explicitly. Programs write such files next to data (.gitattributes, _SUCCESS).
func isHidden(name, pattern string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if (strings.HasPrefix(part, ".") || strings.HasPrefix(part, "_")) && !strings.Contains(pattern, part[:1]) {
			return true
		}
	}
	return false
}

// ValidatePattern returns an error for an invalid address or pattern of objects. It sends no request.
func ValidatePattern(pattern string) error {
	if !IsRemote(pattern) {
		return fmt.Errorf("%s is no address: want one that begins with %s", RedactAddress(pattern),
			strings.Join(Schemes, "://, ")+"://")
	}
	a, err := parse(pattern)
	if err == nil && !doublestar.ValidatePattern(a.name) {
		err = fmt.Errorf("%s: the pattern has a bracket that is not closed", pattern)
	}
	return err
}
