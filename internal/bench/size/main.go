// Command size says what the bytes of a program are: its sections, and by package its machine code and data. The program must have its symbols.
//
//	size bin/loaderd-symbols
package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "size: want the path of an ELF program with its symbols")
		os.Exit(2)
	}
	if err := report(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// least is the size in bytes from which packages are listed.
const least = 50_000

type bytesOf struct{ code, data uint64 }

func report(out io.Writer, path string) error {
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	defer program.Close()
	symbols, err := program.Symbols()
	if err != nil {
		return fmt.Errorf("symbols of %s: %w", path, err)
	}
	for _, s := range program.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && s.Size > least {
			fmt.Fprintf(out, "%6d kB  %s\n", s.Size/1000, s.Name)
		}
	}
	packages := map[string]bytesOf{}
	for _, s := range symbols {
		if int(s.Section) >= len(program.Sections) || program.Sections[s.Section].Type == elf.SHT_NOBITS {
			continue
		}
		b := packages[packageOf(s.Name)]
		if program.Sections[s.Section].Flags&elf.SHF_EXECINSTR != 0 {
			b.code += s.Size
		} else {
			b.data += s.Size
		}
		packages[packageOf(s.Name)] = b
	}
	fmt.Fprintf(out, "\n     code       data  package\n")
	for _, name := range slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(cmp.Compare(packages[b].code+packages[b].data, packages[a].code+packages[a].data), strings.Compare(a, b))
	}) {
		if b := packages[name]; b.code+b.data > least {
			fmt.Fprintf(out, "%6d kB  %6d kB  %s\n", b.code/1000, b.data/1000, name)
		}
	}
	return nil
}

// packageOf is the package of a symbol: what stands before the first point behind the last slash. A generic function counts for its own package.
func packageOf(symbol string) string {
	symbol = strings.TrimPrefix(strings.TrimPrefix(symbol, "type:"), "*")
	path, _, _ := strings.Cut(symbol, "[")
	path, _, _ = strings.Cut(path, "(")
	slash := strings.LastIndexByte(path, '/') + 1
	name, _, _ := strings.Cut(path[slash:], ".")
	return path[:slash] + name
}
