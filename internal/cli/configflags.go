package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/config"
)

// configFlags are the flags that make a configuration, for every command that needs one.
type configFlags struct {
	file      string
	overrides []config.Override // in the order of the command line
}

// register adds the flags of commands that work on one run with its configuration.
func (f *configFlags) register(cmd *cobra.Command) {
	f.registerStore(cmd)
	f.override(cmd, "run", "run", "`name` of the run")
	f.override(cmd, "listen", "flight.listen", "`address` of the Flight server")
	f.override(cmd, "tokenizer", "tokenizer.name", "gpt2, cl100k_base, o200k_base, none, or a tokenizer.json or rank `file`")
}

// registerStore adds the flags of commands that need only the place where the runs are.
func (f *configFlags) registerStore(cmd *cobra.Command) {
	f.registerFile(cmd)
	f.override(cmd, "data-dir", "stream.dir", "data `folder` of the NATS server inside the daemon")
	f.override(cmd, "nats", "stream.url", "`URLs` of NATS servers to use instead of the one inside")
}

// registerFile adds the flags by which any setting can be given.
func (f *configFlags) registerFile(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "YAML configuration `file`; - reads standard input")
	f.override(cmd, "set", "", "override any setting, such as packing.pool=8192; may be repeated")
}

// override adds a flag for the setting at path. Without a path its values name a setting each: PATH=VALUE.
func (f *configFlags) override(cmd *cobra.Command, name, path, usage string) {
	cmd.Flags().Var(&overrideFlag{f, path, "--" + name}, name, usage)
}

// load reads the file, the environment and the flags.
func (f *configFlags) load(cmd *cobra.Command) (config.Config, error) {
	layers := config.Layers{Name: f.file, Environ: os.Environ(), Overrides: f.overrides}
	var err error
	switch f.file {
	case "":
	case "-":
		layers.Name = "standard input"
		layers.YAML, err = io.ReadAll(cmd.InOrStdin())
	default:
		layers.YAML, err = os.ReadFile(f.file)
	}
	if err != nil {
		return config.Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return config.Load(layers)
}

// overrideFlag is a flag whose values become overrides of the setting at path. Without a path the value itself names one: PATH=VALUE.
type overrideFlag struct {
	flags *configFlags
	path  string
	name  string
}

func (o *overrideFlag) Set(value string) error {
	path := o.path
	if path == "" {
		var ok bool
		if path, value, ok = strings.Cut(value, "="); !ok || path == "" {
			return errors.New("want key=value, such as packing.pool=8192")
		}
	}
	o.flags.overrides = append(o.flags.overrides, config.Override{Path: path, Value: value, Flag: o.name})
	return nil
}

func (o *overrideFlag) String() string { return "" }

func (o *overrideFlag) Type() string {
	if o.path == "" {
		return "key=value"
	}
	return "string"
}
