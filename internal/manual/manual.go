// Package manual writes the documentation of a program's command line: pages of Markdown for docs/, and manual pages of
// section 1.
package manual

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Maximum widths of lines of flags and of prose.
const (
	flagColumns  = 130
	proseColumns = 150
)

// FlagUsages lists flags in lines of at most columns characters.
type FlagUsages func(flags *pflag.FlagSet, columns int) string

// Pages returns the documentation of all commands below root as Markdown, by file name: index.md lists them, and
// NAME.md describes a command of the first level with those below it.
func Pages(root *cobra.Command, usages FlagUsages) map[string][]byte {
	var index bytes.Buffer
	fmt.Fprintf(&index, "# Commands\n\n%s\n\n", prose(root.Long))
	index.WriteString("`" + root.Name() + " COMMAND --help` prints the same on a terminal.\n\n")
	index.WriteString("| command | what it does |\n| --- | --- |\n")
	pages := map[string][]byte{}
	for _, first := range visibleChildren(root) {
		page := first.Name() + ".md"
		var b bytes.Buffer
		fmt.Fprintf(&b, "# %s\n\n", first.CommandPath())
		describe(&b, first, usages)
		fmt.Fprintf(&index, "| [%s](%s) | %s |\n", first.CommandPath(), page, first.Short)
		for _, c := range below(first) {
			fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
			describe(&b, c, usages)
			fmt.Fprintf(&index, "| [%s](%s#%s) | %s |\n", c.CommandPath(), page,
				strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
		}
		pages[page] = b.Bytes()
	}
	pages["index.md"] = index.Bytes()
	return pages
}

// below returns the visible commands below c, parents first.
func below(c *cobra.Command) (all []*cobra.Command) {
	for _, x := range visibleChildren(c) {
		all = append(append(all, x), below(x)...)
	}
	return all
}

// visibleChildren returns the visible commands one level below c. It omits those of Cobra's completion, one for each
// shell.
func visibleChildren(c *cobra.Command) (children []*cobra.Command) {
	if c.Name() == "completion" {
		return nil
	}
	for _, x := range c.Commands() {
		if x.IsAvailableCommand() && x.Name() != "help" {
			children = append(children, x)
		}
	}
	return children
}

func describe(b *bytes.Buffer, c *cobra.Command, usages FlagUsages) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "%s\n\n", prose(text))
	block(b, "text", c.UseLine())
	if c.Example != "" {
		b.WriteString("\n")
		block(b, "sh", unindented(c.Example))
	}
	c.InitDefaultHelpFlag()
	if flags := c.LocalFlags(); visible(flags) {
		b.WriteString("\n")
		block(b, "text", unindented(usages(flags, flagColumns)))
	}
}

// visible reports whether flags has a visible flag other than --help.
func visible(flags *pflag.FlagSet) (more bool) {
	flags.VisitAll(func(f *pflag.Flag) { more = more || !f.Hidden && f.Name != "help" })
	return more
}

func block(b *bytes.Buffer, language, text string) {
	fmt.Fprintf(b, "```%s\n%s\n```\n", language, strings.TrimRight(text, "\n"))
}

// prose converts a command's text to Markdown; indented text becomes a code block.
func prose(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		switch {
		case !strings.HasPrefix(line, "  "):
			lines[i] = wrapped(escape.Replace(line))
		case !strings.HasPrefix(line, "    "):
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// wrapped breaks a line that is too long at spaces.
func wrapped(line string) string {
	var b strings.Builder
	for len(line) > proseColumns {
		at := strings.LastIndexByte(line[:proseColumns], ' ')
		if at < 0 {
			break
		}
		b.WriteString(line[:at] + "\n")
		line = line[at+1:]
	}
	return b.String() + line
}

// escape escapes characters that Markdown would interpret.
var escape = strings.NewReplacer("*", `\*`, "<", "&lt;", "_", `\_`)

// unindented removes the indentation of the first line from all lines.
func unindented(text string) string {
	text = strings.Trim(text, "\n")
	by := len(text) - len(strings.TrimLeft(text, " "))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line[min(by, len(line)-len(strings.TrimLeft(line, " "))):], " ")
	}
	return strings.Join(lines, "\n")
}

// Man writes a manual page of section 1 for root and each command below it into folder, with a version and a date.
func Man(folder string, root *cobra.Command, version string, day time.Time) error {
	quiet(root)
	header := &doc.GenManHeader{Section: "1", Source: root.Name() + " " + version, Manual: root.Name() + " manual",
		Date: &day}
	if err := doc.GenManTree(root, header, folder); err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	return nil
}

// quiet omits the line that names the generator of a page.
func quiet(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, x := range c.Commands() {
		quiet(x)
	}
}
