package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"

	"loaderd/internal/testscale"
)

// billOf writes a bill with one component, and returns its path.
func billOf(t *testing.T, c cyclonedx.Component) string {
	t.Helper()
	bill := cyclonedx.NewBOM()
	bill.Components = &[]cyclonedx.Component{c}
	path := filepath.Join(t.TempDir(), "bill.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := write(f, bill); err != nil {
		t.Fatal(err)
	}
	return path
}

// audited runs the command and returns its exit status, and what it printed.
func audited(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	status = run(t.Context(), append([]string{"audit"}, args...), &out, &said)
	return status, out.String(), said.String()
}

func expression(text string) *cyclonedx.Licenses { return &cyclonedx.Licenses{{Expression: text}} }

var harmless = cyclonedx.Component{Name: "harmless", Version: "1", PackageURL: "pkg:pypi/harmless@1", Licenses: expression("MIT")}

// The texts of the licences of all that is linked are there.
func TestNotices(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	if run(t.Context(), []string{"notices", own}, &out, &said) != 0 {
		t.Fatal(said.String())
	}
	for _, part := range []string{"==== github.com/CycloneDX/cyclonedx-go v", "==== std 1.", "Apache License", "Redistribution and use in source and binary forms"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not among the notices", part)
		}
	}
	if run(t.Context(), []string{"notices", "supply_test.go"}, &out, &said) == 0 {
		t.Error("a file that is no program has notices")
	}
}

// This test's own program is as good as another: it lists the modules that are linked, with sums and licences, and only these.
func TestBinary(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, again, said bytes.Buffer
	if run(t.Context(), []string{"binary", own}, &out, &said)+run(t.Context(), []string{"binary", own}, &again, &said) != 0 {
		t.Fatal(said.String())
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same binary has two bills")
	}
	var bill cyclonedx.BOM
	if err := json.Unmarshal(out.Bytes(), &bill); err != nil {
		t.Fatal(err)
	}
	licences := map[string]string{}
	for _, c := range components(&bill) {
		if c.Licenses != nil {
			licences[c.Name] = (*c.Licenses)[0].Expression
		}
		if c.Name != standardLibrary && (c.Hashes == nil || len((*c.Hashes)[0].Value) != 64) {
			t.Errorf("%s has no sum", c.Name)
		}
	}
	for name, licence := range map[string]string{"std": "BSD-3-Clause", "github.com/CycloneDX/cyclonedx-go": "Apache-2.0", "go.yaml.in/yaml/v3": "Apache-2.0 AND MIT"} {
		if licences[name] != licence {
			t.Errorf("%s: licence %q, want %q", name, licences[name], licence)
		}
	}
	if _, linked := licences["google.golang.org/grpc"]; linked {
		t.Error("lists a module that is not linked")
	}
	root := (*bill.Dependencies)[0]
	if !slices.Contains(*root.Dependencies, "github.com/CycloneDX/cyclonedx-go") || slices.Contains(*root.Dependencies, "google.golang.org/grpc") {
		t.Errorf("depends on %v", *root.Dependencies)
	}
}

// The vocabularies in the program are listed with the licence of their makers.
func TestEmbedded(t *testing.T) {
	t.Chdir("../..")
	listed, err := embedded(&debug.BuildInfo{Path: "loaderd/cmd/loaderd"})
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) != 1 || (*listed[0].Licenses)[0].Expression != "MIT" {
		t.Errorf("the program holds %+v", listed)
	}
	if listed, err = embedded(&debug.BuildInfo{Path: "loaderd/internal/supply"}); err != nil || len(listed) > 0 {
		t.Errorf("another program holds %+v: %v", listed, err)
	}
}

// A licence that is not on the list is an error that names the component, whether an expression, a name or nothing says it.
func TestAuditOfLicences(t *testing.T) {
	cases := []struct {
		name     string
		licences *cyclonedx.Licenses
		refused  string // of the error, empty when permitted
	}{
		{"allowed", expression("MIT"), ""},
		{"choice", expression("GPL-3.0-only OR MIT"), ""},
		{"exception", expression("Apache-2.0 WITH LLVM-exception"), ""},
		{"forbidden", expression("MIT AND (AGPL-3.0-only OR SSPL-1.0)"), "not allowed: AGPL-3.0-only, SSPL-1.0"},
		{"identifier", &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "GPL-3.0-only"}}}, "not allowed: GPL-3.0-only"},
		{"one of two", &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "MIT"}}, {License: &cyclonedx.License{Name: "All rights reserved"}}}, "not allowed: All rights reserved"},
		{"name on the list", &cyclonedx.Licenses{{License: &cyclonedx.License{Name: "License :: OSI Approved :: BSD License"}}}, ""},
		{"broken", expression("MIT OR"), "not allowed: MIT OR"},
		{"none", nil, "no licence is known"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, out, said := audited(t, billOf(t, cyclonedx.Component{Name: "thing", Version: "7", PackageURL: "pkg:pypi/thing@7", Licenses: c.licences}))
			if !strings.Contains(out, "thing") {
				t.Errorf("the list leaves it out: %s", out)
			}
			if (status != 0) != (c.refused != "") || !strings.Contains(said, c.refused) {
				t.Errorf("status %d: %s", status, said)
			}
			if status != 0 && !strings.Contains(said, "pkg:pypi/thing@7") {
				t.Errorf("the error does not name it: %s", said)
			}
		})
	}
}

// The text of a licence is recognised in a module's folder, and what is decided in policy.yaml holds for one version alone.
func TestLicenceOf(t *testing.T) {
	var module struct{ Dir string }
	download := output(t, "go", "mod", "download", "-json", "github.com/google/licenseclassifier/v2")
	if err := json.Unmarshal([]byte(download), &module); err != nil {
		t.Fatal(err)
	}
	assets := filepath.Join(module.Dir, "assets", "License")
	folder := t.TempDir()
	for name, licence := range map[string]string{"COPYING": "GPL-3.0", "LICENSE.md": "ISC", "code.go": "SSPL-1.0"} {
		text, err := os.ReadFile(filepath.Join(assets, licence, "license.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if licence, err := licenceOf(folder); err != nil || licence != "GPL-3.0 AND ISC" {
		t.Errorf("%q, %v", licence, err)
	}
	rules, err := readPolicy()
	if err != nil {
		t.Fatal(err)
	}
	if problem := rules.problem([]string{"GPL-3.0 AND ISC"}); problem != "not allowed: GPL-3.0" {
		t.Error(problem)
	}
	decided := cyclonedx.Component{PackageURL: "pkg:golang/github.com/golang/freetype@v0.0.0-20170609003504-e2365dfdc4a0"}
	if problem := rules.problem(rules.of(decided)); problem != "" {
		t.Error(problem)
	}
	decided.PackageURL = "pkg:golang/github.com/golang/freetype@v0.1.0"
	if rules.problem(rules.of(decided)) == "" {
		t.Error("a decision holds for another version")
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// vulnerable is a database in which the versions of a module before `fixed` have a vulnerability.
func vulnerable(t *testing.T, module, fixed string) string {
	t.Helper()
	folder := t.TempDir()
	const id = "GO-2026-9999"
	for name, text := range map[string]string{
		"index/db.json":      `{"modified": "2026-01-01T00:00:00Z"}`,
		"index/modules.json": fmt.Sprintf(`[{"path": %q, "vulns": [{"id": %q, "modified": "2026-01-01T00:00:00Z", "fixed": %q}]}]`, module, id, fixed),
		"index/vulns.json":   fmt.Sprintf(`[{"id": %q, "modified": "2026-01-01T00:00:00Z"}]`, id),
		"ID/" + id + ".json": fmt.Sprintf(`{"schema_version": "1.3.1", "id": %q, "modified": "2026-01-01T00:00:00Z", "published": "2026-01-01T00:00:00Z", "summary": "A made-up hole",
			"affected": [{"package": {"name": %q, "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": %q}]}],
			"ecosystem_specific": {"imports": [{"path": %q, "symbols": ["Decoder.Decode"]}]}}],
			"database_specific": {"url": "https://vuln.example"}}`, id, module, fixed, module),
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + folder
}

// govulncheck itself looks into this test's program: with a database of one made-up vulnerability, in a version that is linked and in one that is
// not, and with none that answers.
func TestAuditOfTheBinary(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const module = "go.yaml.in/yaml/v3"
	bill := billOf(t, harmless)
	cases := []struct {
		name         string
		database     string
		status       int
		strict       int
		out, refused string
	}{
		{"known", vulnerable(t, module, "4.0.0"), 1, 1, "A made-up hole", "govulncheck: vulnerabilities are known"},
		{"fixed", vulnerable(t, module, "1.0.0"), 0, 0, "govulncheck: found no vulnerability", ""},
		{"nobody answers", "http://127.0.0.1:1", 0, 1, "govulncheck: not run: ", "govulncheck: not run: "},
		{"no database", "file:///nowhere", 0, 1, "govulncheck: not run: ", "govulncheck: not run: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for strict, want := range testscale.Of(map[string]int{"-strict": c.strict}, map[string]int{"-strict=false": c.status, "-strict": c.strict}) {
				status, out, said := audited(t, strict, "-binary", own, "-db", c.database, bill)
				if status != want || !strings.Contains(out, c.out) {
					t.Errorf("%s: status %d, want %d\n%s%s", strict, status, want, out, said)
				}
				if status != 0 && !strings.Contains(said, c.refused) {
					t.Errorf("%s: %s", strict, said)
				}
			}
		})
	}
}

// fakePipAudit is a program that gets the arguments of pip-audit, keeps the list of packages, and answers.
func fakePipAudit(t *testing.T, answer string, status int) (program, asked string) {
	t.Helper()
	folder := t.TempDir()
	program, asked = filepath.Join(folder, "pip-audit"), filepath.Join(folder, "asked")
	script := fmt.Sprintf("#!/bin/sh\ncp \"$2\" %s\necho 'the last word' >&2\ncat <<'.'\n%s\n.\nexit %d\n", asked, answer, status)
	if answer == "" {
		script = fmt.Sprintf("#!/bin/sh\necho 'the last word' >&2\nexit %d\n", status)
	}
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, asked
}

// The answers are those of pip-audit 2.10, which ends with 0 when it knows nothing of any package.
func TestAuditOfPackages(t *testing.T) {
	const clean = `{"name": "numpy", "version": "2.4.6", "vulns": []}`
	cases := []struct {
		name, answer   string
		exit           int
		status, strict int
		out            string
	}{
		{"clean", `{"dependencies": [` + clean + `], "fixes": []}`, 0, 0, 0, "pip-audit: found no vulnerability"},
		{"known", `{"dependencies": [` + clean + `, {"name": "torch", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2", "3"], "aliases": []}]}]}`, 1, 1, 1,
			"torch 1: PYSEC-1, fixed in 2, 3"},
		{"not found", `{"dependencies": [` + clean + `, {"name": "torch", "skip_reason": "Dependency not found on PyPI"}]}`, 0, 0, 1,
			"pip-audit: not run: for 1 of 2 packages: Dependency not found on PyPI"},
		{"no packages", `{"dependencies": []}`, 0, 0, 1, "pip-audit: not run: for 0 of 0 packages"},
		{"no answer", "", 1, 0, 1, "pip-audit: not run: the last word (exit status 1)"},
		{"no JSON", "what?", 0, 0, 1, "pip-audit: not run: read its answer"},
	}
	bill := billOf(t, harmless)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			program, asked := fakePipAudit(t, c.answer, c.exit)
			for strict, want := range map[string]int{"-strict=false": c.status, "-strict": c.strict} {
				if status, out, said := audited(t, strict, "-pip-audit", program, bill); status != want || !strings.Contains(out, c.out) {
					t.Errorf("%s: status %d, want %d\n%s%s", strict, status, want, out, said)
				}
			}
			if c.answer != "" {
				if list, err := os.ReadFile(asked); err != nil || string(list) != "harmless==1\n" {
					t.Errorf("asked for %q, %v", list, err)
				}
			}
		})
	}
}

func TestAuditInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pipAudit(ctx, "true", nil); err == nil {
		t.Error("an interrupted search is a clean one")
	}
}

// Whatever stands in a bill: an expression is read or refused, and one without a name on the list is never permitted.
func FuzzPermits(f *testing.F) {
	for _, text := range []string{"MIT", "MIT OR GPL-3.0", "(MIT)", "A AND (B OR C WITH D)", "((", "AND", "", "MIT)", "a and b or c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		refused, err := permits(text, map[string]bool{})
		if err == nil && len(refused) == 0 {
			t.Errorf("%q is permitted", text)
		}
		if err != nil {
			return
		}
		every := map[string]bool{}
		for _, name := range refused {
			every[name] = true
		}
		if again, err := permits(text, every); err != nil || len(again) > 0 {
			t.Errorf("%q: %v, %v with all that it names", text, again, err)
		}
	})
}
