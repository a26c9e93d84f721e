package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/CycloneDX/cyclonedx-go"
	"go.yaml.in/yaml/v3"
)

//go:embed policy.yaml
var policyFile []byte

// policy is which licences may be in a release.
type policy struct {
	Allowed  []string  `yaml:"allowed"`
	Decided  []decided `yaml:"decided"`
	listed   map[string]bool
	licences map[string]string
}

// decided is a licence that a person has found for one version of a component, in place of what its files or metadata say.
type decided struct {
	Component string `yaml:"component"`
	Licence   string `yaml:"licence"`
	Why       string `yaml:"why"`
}

func readPolicy() (policy, error) {
	p := policy{listed: map[string]bool{}, licences: map[string]string{}}
	d := yaml.NewDecoder(bytes.NewReader(policyFile))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("policy.yaml: %w", err)
	}
	for _, name := range p.Allowed {
		p.listed[name] = true
	}
	for _, c := range p.Decided {
		if c.Component == "" || c.Licence == "" || c.Why == "" {
			return p, fmt.Errorf("policy.yaml: %+v: a component, its licence and why are needed", c)
		}
		p.licences[c.Component] = c.Licence
	}
	return p, nil
}

// licences are a component's, each an SPDX expression or a name; all of them hold at once.
func (p policy) of(c cyclonedx.Component) []string {
	if licence, found := p.licences[c.PackageURL]; found {
		return []string{licence}
	}
	if c.Licenses == nil {
		return nil
	}
	var all []string
	for _, l := range *c.Licenses {
		switch {
		case l.Expression != "":
			all = append(all, l.Expression)
		case l.License != nil && l.License.ID != "":
			all = append(all, l.License.ID)
		case l.License != nil:
			all = append(all, l.License.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// problem says what is wrong with licences of a component; it is empty where nothing is.
func (p policy) problem(licences []string) string {
	if len(licences) == 0 {
		return "no licence is known"
	}
	refused := map[string]bool{}
	for _, l := range licences {
		names, err := permits(l, p.listed)
		if err != nil && !p.listed[l] {
			names = []string{l} // a name in a package's own words
		}
		for _, name := range names {
			refused[name] = true
		}
	}
	if len(refused) == 0 {
		return ""
	}
	return "not allowed: " + strings.Join(slices.Sorted(maps.Keys(refused)), ", ")
}

// reportLicences prints a line for each component of a bill. The error names those whose licences are not allowed.
func reportLicences(w io.Writer, path string, bill *cyclonedx.BOM, rules policy) error {
	fmt.Fprintf(w, "licences of %s\n\n", path)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var problems []error
	for _, c := range components(bill) {
		licences := rules.of(c)
		fmt.Fprintf(table, "  %s\t%s\t%s\n", c.Name, c.Version, strings.Join(licences, ", "))
		if problem := rules.problem(licences); problem != "" {
			problems = append(problems, fmt.Errorf("%s: %s", c.PackageURL, problem))
		}
	}
	table.Flush()
	fmt.Fprintln(w)
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d components with licences that internal/supply/policy.yaml does not allow (do without the component, or add what was decided to the file):\n%w",
		path, len(problems), errors.Join(problems...))
}
