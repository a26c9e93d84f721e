//go:build manual

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"loaderd/internal/build"
	"loaderd/internal/cli"
	"loaderd/internal/manual"
)

// With the build tag manual this program writes the files that packages install in addition to the program: go run
// -tags manual ./cmd/loaderd FOLDER. Dates are those of SOURCE_DATE_EPOCH, so that the same source gives the same
// files.
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run -tags manual ./cmd/loaderd FOLDER")
		os.Exit(2)
	}
	if err := writeManual(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writeManual(folder string) error {
	day := time.Now().UTC()
	if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		day = time.Unix(s, 0).UTC()
	}
	man, completion := filepath.Join(folder, "man"), filepath.Join(folder, "completion")
	for _, f := range []string{man, completion} {
		if err := os.MkdirAll(f, 0o755); err != nil {
			return err
		}
	}
	if err := manual.Man(man, cli.NewRootCmd(), build.This().Version, day); err != nil {
		return err
	}
	root := cli.NewRootCmd()
	for name, write := range map[string]func(string) error{
		"loaderd.bash": func(f string) error { return root.GenBashCompletionFileV2(f, true) },
		"_loaderd":     root.GenZshCompletionFile,
		"loaderd.fish": func(f string) error { return root.GenFishCompletionFile(f, true) },
	} {
		if err := write(filepath.Join(completion, name)); err != nil {
			return err
		}
	}
	return nil
}
