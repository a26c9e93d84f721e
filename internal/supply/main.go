// Command supply answers for what releases are made of: bills of materials of the binary and of the Python package, the licences in them, and
// whether vulnerabilities of any of it are known. The Makefile's targets sbom and audit run it.
//
//	supply binary bin/loaderd                      the bill of materials of a Go binary (CycloneDX 1.6, JSON)
//	supply notices bin/loaderd                     the licence texts of what is linked into a Go binary
//	supply audit [flags] binary.json python.json   licences and known vulnerabilities of what two bills list
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if err := command(ctx, args, stdout); err != nil {
		fmt.Fprintln(stderr, "supply:", err)
		return 1
	}
	return 0
}

func command(ctx context.Context, args []string, stdout io.Writer) error {
	usage := errors.New("want: binary FILE, notices FILE, or: audit [flags] BILL and more bills")
	if len(args) < 2 {
		return usage
	}
	switch args[0] {
	case "binary":
		bill, err := binaryBill(ctx, args[1])
		if err != nil {
			return err
		}
		return write(stdout, bill)
	case "notices":
		return writeNotices(ctx, stdout, args[1])
	case "audit":
		return audit(ctx, args[1:], stdout)
	}
	return usage
}

// audit prints what is known of the components of the bills. It is an error that a licence is not on the list or a vulnerability is known, and
// with -strict that a search for vulnerabilities could not be run.
func audit(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	strict := flags.Bool("strict", false, "a search for vulnerabilities that cannot be run is an error")
	binary := flags.String("binary", "", "a Go binary for govulncheck")
	database := flags.String("db", "", "where govulncheck asks: a URL, or file:///FOLDER for a copy; vuln.go.dev if empty")
	program := flags.String("pip-audit", "", "the program pip-audit, for the Python packages of the bills")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rules, err := readPolicy()
	if err != nil {
		return err
	}
	var listed []cyclonedx.Component
	var problems []error
	for _, path := range flags.Args() {
		bill, err := readBill(path)
		if err != nil {
			return err
		}
		problems = append(problems, reportLicences(stdout, path, bill, rules))
		listed = append(listed, components(bill)...)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if *binary != "" {
		problems = append(problems, scan{"govulncheck", func() (string, error) { return govulncheck(ctx, *database, *binary) }}.report(stdout, *strict))
	}
	if *program != "" {
		problems = append(problems, scan{"pip-audit", func() (string, error) { return pipAudit(ctx, *program, listed) }}.report(stdout, *strict))
	}
	return errors.Join(problems...)
}
