package main

import (
	"fmt"
	"strings"
)

// permits says whether an SPDX expression (`MIT OR (Apache-2.0 AND BSD-3-Clause)`) can be met with licences on the list alone, and if not which ones are
// not on it. An exception to a licence, behind WITH, only gives more rights.
func permits(expression string, listed map[string]bool) (refused []string, err error) {
	p := parser{words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(expression)), listed: listed}
	refused, err = p.either(0)
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("%q where an operator should stand", p.words[0])
	}
	if err != nil {
		return nil, fmt.Errorf("licence expression %.200q: %w", expression, err)
	}
	return refused, nil
}

// parser is at the first of words.
type parser struct {
	words  []string
	listed map[string]bool
}

// depth bounds brackets within brackets.
const depth = 100

func (p *parser) take(word string) bool {
	if len(p.words) == 0 || !strings.EqualFold(p.words[0], word) {
		return false
	}
	p.words = p.words[1:]
	return true
}

// either reads alternatives: one without refused licences is enough.
func (p *parser) either(level int) ([]string, error) {
	refused, err := p.all(level)
	for err == nil && p.take("OR") {
		var other []string
		if other, err = p.all(level); len(other) == 0 || len(refused) == 0 {
			refused = nil
		} else {
			refused = append(refused, other...)
		}
	}
	return refused, err
}

func (p *parser) all(level int) ([]string, error) {
	refused, err := p.one(level)
	for err == nil && p.take("AND") {
		var other []string
		other, err = p.one(level)
		refused = append(refused, other...)
	}
	return refused, err
}

func (p *parser) one(level int) ([]string, error) {
	if p.take("(") {
		if level == depth {
			return nil, fmt.Errorf("more than %d brackets within each other", depth)
		}
		refused, err := p.either(level + 1)
		if err == nil && !p.take(")") {
			err = fmt.Errorf("a bracket is not closed")
		}
		return refused, err
	}
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	if p.take("WITH") {
		if _, err := p.name(); err != nil {
			return nil, err
		}
	}
	if p.listed[name] {
		return nil, nil
	}
	return []string{name}, nil
}

func (p *parser) name() (string, error) {
	if len(p.words) == 0 {
		return "", fmt.Errorf("it ends where a licence should be named")
	}
	name := p.words[0]
	switch strings.ToUpper(name) {
	case "(", ")", "AND", "OR", "WITH":
		return "", fmt.Errorf("%q where a licence should be named", name)
	}
	p.words = p.words[1:]
	return name, nil
}
