package command

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// HelpColumns is the maximum width of a command's help.
const HelpColumns = 80

// FlagUsages lists the flags of a command in lines of at most columns characters. Boolean flags have no value.
func FlagUsages(flags *pflag.FlagSet, columns int) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = flags.SortFlags
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			plain := *f
			plain.Value = switchValue{f.Value}
			f = &plain
		}
		shown.AddFlag(f)
	})
	return shown.FlagUsagesWrapped(columns)
}

// switchValue is a boolean value without the suffix [=true|false] in the list of flags.
type switchValue struct{ pflag.Value }

func (switchValue) Type() string { return "boolfunc" }

// InitHelp sets the layout of the help of root and of all commands below it.
func InitHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", func(flags *pflag.FlagSet) string { return FlagUsages(flags, HelpColumns) })
	root.SetUsageTemplate(strings.NewReplacer(".LocalFlags.FlagUsages", "flagUsages .LocalFlags",
		".InheritedFlags.FlagUsages", "flagUsages .InheritedFlags").Replace(root.UsageTemplate()))
}
