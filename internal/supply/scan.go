package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// scan is one search for known vulnerabilities.
type scan struct {
	tool    string
	outcome func() (found string, err error) // what the tool says of vulnerabilities, empty without any; errNotRun
}

// errNotRun: nothing is known, for the reason that stands before it.
var errNotRun = errors.New("not run")

// report prints the outcome. Vulnerabilities are an error; that the scan was not run is one when strict.
func (s scan) report(w io.Writer, strict bool) error {
	found, err := s.outcome()
	switch {
	case errors.Is(err, errNotRun):
		fmt.Fprintf(w, "%s: %v\n", s.tool, err)
		if strict {
			return fmt.Errorf("%s: %w", s.tool, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", s.tool, err)
	case found != "":
		fmt.Fprintf(w, "%s: vulnerabilities are known:\n\n%s\n", s.tool, found)
		return fmt.Errorf("%s: vulnerabilities are known: bring the modules and packages named above up", s.tool)
	}
	fmt.Fprintf(w, "%s: found no vulnerability\n", s.tool)
	return nil
}

func notRun(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errNotRun}, a...)...)
}

// govulncheck looks into a Go binary for functions that the Go vulnerability database lists. An empty database is vuln.go.dev; file:///FOLDER is a copy.
func govulncheck(ctx context.Context, database, binary string) (string, error) {
	args := []string{"tool", "govulncheck", "-mode", "binary"}
	if database != "" {
		args = append(args, "-db", database)
	}
	out, said, err := outputs(ctx, "go", append(args, binary)...)
	const vulnerable = 3
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &exit) && exit.ExitCode() == vulnerable:
		return out, nil
	}
	return "", notRun("%s (%w)", lastLine(said), err)
}

// pipAudit asks PyPI for vulnerabilities of Python packages in the versions that are listed.
func pipAudit(ctx context.Context, program string, listed []cyclonedx.Component) (string, error) {
	var requirements strings.Builder
	for _, c := range listed {
		if strings.HasPrefix(c.PackageURL, "pkg:pypi/") {
			fmt.Fprintf(&requirements, "%s==%s\n", c.Name, c.Version)
		}
	}
	file, err := os.CreateTemp("", "requirements-*.txt")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(requirements.String())
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	out, said, err := outputs(ctx, program, "--requirement", file.Name(), "--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off")
	if out == "" {
		return "", notRun("%s (%v)", lastLine(said), err)
	}
	return readPipAudit(out)
}

// readPipAudit reads what pip-audit says as JSON. A package that it knows nothing of is not one without vulnerabilities, which its exit status does not tell.
func readPipAudit(text string) (string, error) {
	var said struct {
		Dependencies []struct {
			Name, Version string
			SkipReason    string `json:"skip_reason"`
			Vulns         []struct {
				ID          string
				FixVersions []string `json:"fix_versions"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return "", notRun("read its answer: %w", err)
	}
	var found strings.Builder
	var skipped []string
	for _, d := range said.Dependencies {
		if d.SkipReason != "" {
			skipped = append(skipped, d.SkipReason)
		}
		for _, v := range d.Vulns {
			fmt.Fprintf(&found, "  %s %s: %s, fixed in %s\n", d.Name, d.Version, v.ID, strings.Join(v.FixVersions, ", "))
		}
	}
	if found.Len() == 0 && (len(skipped) > 0 || len(said.Dependencies) == 0) {
		return "", notRun("for %d of %d packages: %s", len(skipped), len(said.Dependencies), strings.Join(skipped[:min(1, len(skipped))], ""))
	}
	return found.String(), nil
}

func outputs(ctx context.Context, program string, args ...string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
