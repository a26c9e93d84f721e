package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"loaderd/internal/config"
)

// ConfigFlags are the flags from which a command makes its configuration.
type ConfigFlags struct {
	File      string
	Overrides []config.Override // in the order of the command line
	daemon    *DaemonFlag       // nil: the command is no client of a daemon
}

// RegisterServe adds the flags of serve.
func (f *ConfigFlags) RegisterServe(cmd *cobra.Command) {
	f.RegisterFile(cmd)
	f.Override(cmd, "data-dir", "stream.dir", "`folder` for the embedded NATS server and for tokens")
	f.Override(cmd, "nats", "stream.url", "`URLs` of NATS servers to use instead of the embedded one")
	f.Override(cmd, "listen", "flight.listen", "`address` of the Flight server")
	f.registerRun(cmd)
}

// RegisterRun adds the flags of commands that work on one run with its configuration.
func (f *ConfigFlags) RegisterRun(cmd *cobra.Command) {
	f.RegisterStore(cmd)
	f.registerRun(cmd)
}

func (f *ConfigFlags) registerRun(cmd *cobra.Command) {
	f.Override(cmd, "run", "run", "`name` of the run")
	f.Override(cmd, "tokenizer", "tokenizer.name",
		"gpt2, cl100k_base, o200k_base, none, or a tokenizer.json, tokenizer.model or rank `file`")
}

// RegisterStore adds the flags of commands that need only the location of the runs.
func (f *ConfigFlags) RegisterStore(cmd *cobra.Command) {
	f.RegisterFile(cmd)
	f.RegisterDaemon(cmd)
}

// RegisterDaemon adds the flag for the daemon whose streams the command opens.
func (f *ConfigFlags) RegisterDaemon(cmd *cobra.Command) {
	f.daemon = &DaemonFlag{}
	f.daemon.RegisterNATS(cmd)
}

// RegisterFile adds the flags for the configuration file and for any single setting.
func (f *ConfigFlags) RegisterFile(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.File, "config", "c", "", "YAML configuration `file`; - reads standard input")
	f.Override(cmd, "set", "", "override any setting, such as packing.pool=8192; may be repeated")
}

// Override adds a flag for the setting at path. If path is empty, each value has the form PATH=VALUE.
func (f *ConfigFlags) Override(cmd *cobra.Command, name, path, usage string) {
	cmd.Flags().Var(&OverrideFlag{f, path, "--" + name}, name, usage)
}

// Load reads the file, the environment and the flags, in ascending order of precedence. A daemon that only the
// environment or the selected context names does not replace that of a file.
func (f *ConfigFlags) Load(cmd *cobra.Command) (config.Config, error) {
	layers := config.Layers{Name: f.File, Environ: os.Environ(), Overrides: f.Overrides}
	var err error
	if f.daemon != nil && (f.daemon.value != "" || f.File == "") {
		found, err := f.daemon.Find()
		if err != nil {
			return config.Config{}, err
		}
		set, err := found.overrides()
		if err != nil {
			return config.Config{}, err
		}
		layers.Overrides = append(set, layers.Overrides...)
	}
	switch f.File {
	case "":
	case "-":
		layers.Name = "standard input"
		layers.YAML, err = io.ReadAll(cmd.InOrStdin())
	default:
		layers.YAML, err = os.ReadFile(f.File)
	}
	if err != nil {
		return config.Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return config.Load(layers)
}

// OverrideFlag is a flag whose values override the setting at path. If path is empty, each value has the form
// PATH=VALUE.
type OverrideFlag struct {
	flags *ConfigFlags
	path  string
	name  string
}

// Set implements pflag.Value.
func (o *OverrideFlag) Set(value string) error {
	path := o.path
	if path == "" {
		var ok bool
		if path, value, ok = strings.Cut(value, "="); !ok || path == "" {
			return errors.New("want key=value, such as packing.pool=8192")
		}
	}
	o.flags.Overrides = append(o.flags.Overrides, config.Override{Path: path, Value: value, Flag: o.name})
	return nil
}

func (o *OverrideFlag) String() string { return "" }

// Type implements pflag.Value.
func (o *OverrideFlag) Type() string {
	if o.path == "" {
		return "key=value"
	}
	return "string"
}
