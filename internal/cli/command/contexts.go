package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"loaderd/internal/auth"
)

// Context is how commands reach one daemon. Empty fields are unknown or not needed.
type Context struct {
	Flight    string `yaml:"flight,omitempty" json:"flight,omitempty"`         // URI of the Flight server
	HTTP      string `yaml:"http,omitempty" json:"http,omitempty"`             // URL of the HTTP server
	NATS      string `yaml:"nats,omitempty" json:"nats,omitempty"`             // URLs of the NATS servers, comma separated
	DataDir   string `yaml:"data_dir,omitempty" json:"data_dir,omitempty"`     // data folder on this machine
	TokenFile string `yaml:"token_file,omitempty" json:"token_file,omitempty"` // bearer token for Flight
	// ProducerToken is the token file for publishing to the embedded NATS server.
	ProducerToken string `yaml:"producer_token_file,omitempty" json:"producer_token_file,omitempty"`
	Credentials   string `yaml:"credentials,omitempty" json:"credentials,omitempty"` // NATS credentials file
	NKey          string `yaml:"nkey,omitempty" json:"nkey,omitempty"`               // NKey seed file
	CA            string `yaml:"tls_ca,omitempty" json:"tls_ca,omitempty"`
	Cert          string `yaml:"tls_cert,omitempty" json:"tls_cert,omitempty"`
	Key           string `yaml:"tls_key,omitempty" json:"tls_key,omitempty"`

	name    string // empty for a folder or a URL
	ownHTTP bool   // a daemon on this machine has written the address of its HTTP server
}

// Setting is a setting of a context.
type Setting struct {
	Name, Usage string // of its flag
	Value       *string
	IsFile      bool
}

// Settings returns the settings of a context, in a fixed order.
func (c *Context) Settings() []Setting {
	return []Setting{
		{"flight", "`URI` of the Flight server (grpc:// or grpc+tls://)", &c.Flight, false},
		{"http", "`URL` of the HTTP server", &c.HTTP, false},
		{"nats", "`URLs` of the NATS servers, comma separated (nats:// or tls://)", &c.NATS, false},
		{"data-dir", "data `folder` on this machine, which holds tokens and addresses", &c.DataDir, true},
		{"token-file", "`file` with the bearer token for Flight", &c.TokenFile, true},
		{"producer-token-file", "`file` with the token for publishing to an embedded NATS server", &c.ProducerToken, true},
		{"creds", "NATS credentials `file`", &c.Credentials, true},
		{"nkey", "NKey seed `file`", &c.NKey, true},
		{"tls-ca", "PEM `file` of the authority that signed the servers' certificates", &c.CA, true},
		{"tls-cert", "PEM `file` of the client certificate, with --tls-key", &c.Cert, true},
		{"tls-key", "PEM `file` of the key of --tls-cert", &c.Key, true},
	}
}

// Contexts are the contexts of a user, by name.
type Contexts struct {
	Selected string             `yaml:"selected,omitempty" json:"selected,omitempty"`
	Contexts map[string]Context `yaml:"contexts" json:"contexts"`
}

// contextsFile returns the file of the user's contexts.
func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the folder of contexts: %w", err)
	}
	return filepath.Join(dir, "loaderd", "contexts.yaml"), nil
}

// ReadContexts reads the user's contexts. Without a file, or without a folder for it, there are none.
func ReadContexts() (c Contexts, err error) {
	file, err := contextsFile()
	if err != nil {
		return c, nil //nolint:nilerr // a service has no home folder
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		decoder := yaml.NewDecoder(strings.NewReader(string(text)))
		decoder.KnownFields(true)
		if err = decoder.Decode(&c); errors.Is(err, io.EOF) { // an empty file
			err = nil
		}
	}
	if err != nil {
		return Contexts{}, fmt.Errorf("read contexts: %s: %w", file, err)
	}
	return c, nil
}

// Write replaces the file of the user's contexts.
func (c Contexts) Write() error {
	file, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := auth.WritePrivate(file, text); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// find returns a context by name.
func (c Contexts) find(name string) (found Context, err error) {
	named, ok := c.Contexts[name]
	if !ok {
		return found, fmt.Errorf("%s is neither a folder, a URL nor a context (%s)", name, c.names())
	}
	if named.DataDir != "" {
		if found, err = folderContext(named.DataDir); err != nil {
			return found, err
		}
	}
	written := found
	found = named
	found.name = name
	if found.Flight == "" {
		found.Flight = written.Flight
	}
	if found.HTTP == "" {
		found.HTTP, found.ownHTTP = written.HTTP, written.ownHTTP
	}
	return found, nil
}

// Require returns an error if no context has the name.
func (c Contexts) Require(name string) error {
	if _, ok := c.Contexts[name]; !ok {
		return fmt.Errorf("context %s does not exist (%s)", name, c.names())
	}
	return nil
}

// names lists the contexts for an error.
func (c Contexts) names() string {
	if len(c.Contexts) == 0 {
		return "there are no contexts"
	}
	return "contexts: " + strings.Join(slices.Sorted(maps.Keys(c.Contexts)), ", ")
}
