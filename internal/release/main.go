// Command release builds the program as it is released: for a platform, linked to nothing, without symbols, and small. It runs in the root of the source.
//
//	release [-symbols] [-ldflags FLAGS] OS/ARCH FILE
//
// Packages of which a plan, a batch or a text takes no notice are compiled without inlining, which makes the program 1.5 MB smaller. `go build ./cmd/loaderd`
// makes the same program, larger.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// unhurried are patterns of packages, one a line; lines that begin with # say why.
//
//go:embed unhurried
var unhurried string

func main() {
	symbols := flag.Bool("symbols", false, "keep the symbols, for tools that read them")
	linker := flag.String("ldflags", "", "what the linker is told beside")
	flag.Parse()
	system, processor, ok := strings.Cut(flag.Arg(0), "/")
	if flag.NArg() != 2 || !ok {
		fmt.Fprintln(os.Stderr, "release: want a platform such as linux/amd64, and a file for the program")
		os.Exit(2)
	}
	if !*symbols {
		*linker = "-s -w " + *linker
	}
	build := exec.Command("go", arguments(*linker, flag.Arg(1))...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "release: go build for %s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}

// arguments are those of go. Functions begin at multiples of 16 bytes, as on other processors, and not of 32.
func arguments(linker, file string) []string {
	list := []string{"build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-funcalign=16 " + linker, "-o", file}
	for _, pattern := range patterns() {
		list = append(list, "-gcflags="+pattern+"=-l")
	}
	return append(list, "./cmd/loaderd")
}

func patterns() (list []string) {
	for line := range strings.Lines(unhurried) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}
