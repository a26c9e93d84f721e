// Package auth authenticates and authorizes callers: identities have a role, and are recognised by a bearer token
// or by a name in their client certificate.
package auth

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Role is a set of permissions. Each role includes those before it.
type Role string

// The roles, from the least to the most.
const (
	Read    Role = "read"    // steps, and the run's status
	Train   Role = "train"   // commit and leave, for the identity's own jobs
	Operate Role = "operate" // everything that changes the run for all, and the origins of documents
)

// Roles are all roles, from the least to the most.
var Roles = []Role{Read, Train, Operate}

// Includes reports whether r includes the permissions of the other role.
func (r Role) Includes(other Role) bool { return slices.Index(Roles, r) >= slices.Index(Roles, other) }

// Identity is an authorized caller.
type Identity struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// SHA256 is the hash of the bearer token, in hexadecimal digits. The token itself is not stored.
	SHA256 string `json:"sha256,omitempty"`
	// Certificate is a name in the client certificate: of a host (DNS), a URI, or the common name of its subject.
	Certificate string `json:"certificate,omitempty"`
	// Runs are the names of runs it may access, or prefixes such as a* for all that start with a. Empty permits all.
	Runs []string `json:"runs,omitempty"`
	// Jobs are those it may commit for, in the same form. If empty, it may commit for its own name, and for names
	// that start with it and a slash, which no identity's name contains.
	Jobs    []string  `json:"jobs,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // zero means never
	// Shared reports whether several parties may use it: all that have the token of a token file or of the data folder.
	Shared bool `json:"-"`
}

// CanAccessRun reports whether it may access a run.
func (i Identity) CanAccessRun(run string) bool { return len(i.Runs) == 0 || matches(i.Runs, run) }

// MayCommitFor reports whether it may commit for a job.
func (i Identity) MayCommitFor(job string) bool {
	switch {
	case i.Role == Operate:
		return true
	case len(i.Jobs) == 0:
		return job == i.Name || strings.HasPrefix(job, i.Name+"/")
	}
	return matches(i.Jobs, job)
}

// Job is the job that it commits for by default; usual is the default of identities that may commit for all.
func (i Identity) Job(usual string) string {
	if i.MayCommitFor(usual) || i.Name == "" {
		return usual
	}
	if len(i.Jobs) > 0 && !strings.HasSuffix(i.Jobs[0], "*") {
		return i.Jobs[0]
	}
	return i.Name
}

func (i Identity) String() string {
	if i.Shared {
		return cmp.Or(i.Name, "data folder")
	}
	return cmp.Or(i.Name, "anybody")
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		beginning, open := strings.CutSuffix(p, "*")
		return name == p || open && strings.HasPrefix(name, beginning)
	})
}

const (
	maxName       = 32 // of an identity, because its jobs have names of at most 64 bytes
	maxPattern    = 64
	maxPatterns   = 64
	maxIdentities = 4096
)

// validate returns an error for an identity that is not valid in a file.
func (i Identity) validate() error {
	var bad []error
	refuse := func(key, is, want string) { bad = append(bad, fmt.Errorf("%s %q: want %s", key, is, want)) }
	if err := ValidName(i.Name); err != nil {
		bad = append(bad, err)
	}
	if !slices.Contains(Roles, i.Role) {
		refuse("role", string(i.Role), "read, train or operate")
	}
	if b, err := hex.DecodeString(i.SHA256); i.SHA256 != "" && (err != nil || len(b) != sha256.Size) {
		refuse("sha256", i.SHA256, "64 hexadecimal digits")
	}
	if i.SHA256 == "" && i.Certificate == "" {
		refuse("sha256", "", "this or certificate, to identify the caller")
	}
	for key, patterns := range map[string][]string{"runs": i.Runs, "jobs": i.Jobs} {
		if len(patterns) > maxPatterns {
			refuse(key, fmt.Sprint(len(patterns), " names"), fmt.Sprint("at most ", maxPatterns))
		}
		for _, p := range patterns {
			name := strings.TrimSuffix(p, "*")
			if p == "" || len(p) > maxPattern || strings.Contains(name, "*") || strings.ContainsFunc(name, func(r rune) bool {
				return r < ' ' || r > '~'
			}) {
				refuse(key, p, "a name, or a prefix and *")
			}
		}
	}
	return errors.Join(bad...)
}

// ValidName returns an error if a name is not valid for an identity.
func ValidName(name string) error {
	if len(name) < 1 || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r)
	}) {
		return fmt.Errorf("name %q: want 1 to %d letters, digits, dots, - and _", name, maxName)
	}
	return nil
}

// certificateNames returns the names in a client certificate that can identify its owner.
func certificateNames(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	return append(names, c.Subject.CommonName)
}
