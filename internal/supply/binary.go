package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// standardLibrary is how bills name what every Go binary holds.
const standardLibrary = "std"

// linked lists the modules of a Go binary and the standard library, and says where the sources of each lie, by path. It fetches modules that are not in the
// module cache; where the binary was built all of them are.
func linked(ctx context.Context, path string) (info *buildinfo.BuildInfo, modules []*debug.Module, folders map[string]string, err error) {
	if info, err = buildinfo.ReadFile(path); err != nil {
		return nil, nil, nil, fmt.Errorf("read what %s is built of: %w", path, err)
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if !build.IsLocalImport(m.Path) { // a folder of this repository is no module of others
			modules = append(modules, m)
		}
	}
	if folders, err = moduleFolders(ctx, modules); err != nil {
		return nil, nil, nil, err
	}
	if folders[standardLibrary], err = goOutput(ctx, "env", "GOROOT"); err != nil {
		return nil, nil, nil, err
	}
	return info, append(modules, &debug.Module{Path: standardLibrary, Version: strings.TrimPrefix(info.GoVersion, "go")}), folders, nil
}

// binaryBill lists what is linked into a Go binary, with the licences in its folders. The same binary gives the same bill.
func binaryBill(ctx context.Context, path string) (*cyclonedx.BOM, error) {
	info, modules, folders, err := linked(ctx, path)
	if err != nil {
		return nil, err
	}
	sum, err := fileSum(path)
	if err != nil {
		return nil, err
	}
	var listed []cyclonedx.Component
	for _, m := range modules {
		c, err := moduleComponent(m, folders[m.Path])
		if err != nil {
			return nil, err
		}
		listed = append(listed, c)
	}
	data, err := embedded(info)
	if err != nil {
		return nil, err
	}
	listed = append(listed, data...)
	root := cyclonedx.Component{BOMRef: info.Main.Path, Type: cyclonedx.ComponentTypeApplication, Name: filepath.Base(path), Version: info.Main.Version,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}}
	dependencies, err := moduleGraph(ctx, info.Main.Path, listed)
	if err != nil {
		return nil, err
	}
	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{Component: &root}
	bill.Components, bill.Dependencies = &listed, &dependencies
	return bill, nil
}

// writeNotices writes the licence files of what is linked into a Go binary, whole, as most licences ask for. Equal texts of several modules come once.
func writeNotices(ctx context.Context, w io.Writer, path string) error {
	info, modules, folders, err := linked(ctx, path)
	if err != nil {
		return err
	}
	rules, err := readPolicy()
	if err != nil {
		return err
	}
	under := map[string][]string{} // modules by text
	var texts []string
	for _, m := range modules {
		files, err := licenceFiles(folders[m.Path])
		if err != nil {
			return fmt.Errorf("look for the licence of %s: %w", m.Path, err)
		}
		if licence, known := rules.licences[packageURL(m)]; len(files) == 0 && known {
			files = []string{licence + ": the module has no file of it"}
		}
		if len(files) == 0 {
			return fmt.Errorf("%s %s has no licence file, and policy.yaml decides none", m.Path, m.Version)
		}
		for _, text := range files {
			if under[text] == nil {
				texts = append(texts, text)
			}
			under[text] = append(under[text], m.Path+" "+m.Version)
		}
	}
	for _, d := range dataOf[info.Path] {
		files, err := licenceFiles(filepath.FromSlash(d.folder))
		if err != nil {
			return fmt.Errorf("look for the licence of %s: %w", d.name, err)
		}
		for _, text := range files {
			texts = append(texts, text)
			under[text] = append(under[text], d.name)
		}
	}
	for _, text := range texts {
		if _, err := fmt.Fprintf(w, "==== %s\n\n%s\n\n", strings.Join(under[text], "\n==== "), strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	return nil
}

func packageURL(m *debug.Module) string {
	return "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
}

func moduleComponent(m *debug.Module, folder string) (cyclonedx.Component, error) {
	c := cyclonedx.Component{BOMRef: m.Path, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: packageURL(m)}
	if sum, found := strings.CutPrefix(m.Sum, "h1:"); found {
		raw, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return c, fmt.Errorf("sum of %s: %w", m.Path, err)
		}
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	licence, err := licenceOf(folder)
	if err != nil {
		return c, fmt.Errorf("look for the licence of %s: %w", m.Path, err)
	}
	if licence != "" {
		concluded := cyclonedx.LicenseAcknowledgementConcluded
		c.Licenses = &cyclonedx.Licenses{{Expression: licence, Acknowledgement: &concluded}}
	}
	return c, nil
}

// moduleFolders says where the sources of modules lie, by path.
func moduleFolders(ctx context.Context, modules []*debug.Module) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	out, err := goOutput(ctx, args...)
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go mod download says: %w", err)
		}
		folders[m.Path] = m.Dir
	}
}

// moduleGraph says which of the components require which others, as the go.mod files do.
func moduleGraph(ctx context.Context, root string, listed []cyclonedx.Component) ([]cyclonedx.Dependency, error) {
	out, err := goOutput(ctx, "mod", "graph")
	if err != nil {
		return nil, err
	}
	linked := map[string]bool{root: true}
	for _, c := range listed {
		linked[c.BOMRef] = true
	}
	required := map[[2]string]bool{}
	requires := map[string][]string{root: {standardLibrary}}
	for line := range strings.Lines(out) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		from, _, _ = strings.Cut(from, "@")
		to, _, _ = strings.Cut(to, "@")
		// A module stands in the graph in several versions. One is linked.
		if arrow := [2]string{from, to}; linked[from] && linked[to] && from != to && !required[arrow] {
			required[arrow] = true
			requires[from] = append(requires[from], to)
		}
	}
	graph := []cyclonedx.Dependency{{Ref: root, Dependencies: new(requires[root])}}
	for _, c := range listed {
		d := cyclonedx.Dependency{Ref: c.BOMRef}
		if to := requires[c.BOMRef]; len(to) > 0 {
			d.Dependencies = &to
		}
		graph = append(graph, d)
	}
	return graph, nil
}

// goOutput is what the go command prints.
func goOutput(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args[:2], " "), err, lastLine(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
