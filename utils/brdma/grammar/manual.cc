// `brdma manual`: the pages of section 8, as roff, made from the table: brdma(8), and brdma-OBJECT(8) for each object.

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/nearest_word.h"
#include "grammar/help.h"

namespace brdma::grammar {
namespace {

constexpr std::string_view kDescription =
    "brdma run runs an unmodified program that uses libibverbs or librdmacm; it sees one RDMA device for each network "
    "interface with an IP address, brdma_INTERFACE, and speaks RoCEv2. No hardware, kernel module or privilege is "
    "needed.\n\n"
    "The other objects follow the grammar of rdma(8). Words may be abbreviated; without a command it is show. Where "
    "standard output is a terminal, lists are tables that fit it; else each record is one line of keys and values.";

// Text in roff: no character of it is a command.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string{"\\&"} + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }

// Words in lower case are to be typed, those in capitals to be replaced.
std::string synopsis(const Object& object, const Command& row) {
  std::string text = bold("brdma " + std::string{object.name} + (row.name.empty() ? "" : " " + std::string{row.name}));
  if (!row.arguments.empty()) text += " ";
  std::string word;
  for (const char c : std::string{row.arguments} + " ") {
    const bool in_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '@';
    if (in_word) {
      word += c;
      continue;
    }
    if (!word.empty()) {
      const bool typed = word.front() == '-' || (word.front() >= 'a' && word.front() <= 'z');
      text += typed ? bold(word) : "\\fI" + escaped(word) + "\\fR";
      word.clear();
    }
    text += c;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string section(std::string_view title) { return ".SH " + std::string{title} + "\n"; }

std::string paragraphs_of(std::string_view prose) {
  std::string text;
  while (!prose.empty()) {
    const std::size_t end = prose.find("\n\n");
    text += (text.empty() ? "" : ".PP\n") + escaped(prose.substr(0, end)) + "\n";
    prose = end == prose.npos ? std::string_view{} : prose.substr(end + 2);
  }
  return text;
}

std::string option_entry(const Option& option) {
  std::string text = ".TP\n" + bold(option.names);
  if (!option.value.empty()) text += " \\fI" + escaped(option.value) + "\\fR";
  return text + "\n" + escaped(option.meaning) + ".\n";
}

std::string title_of(std::string_view name) {
  std::string title{name};
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  return ".\\\" Made by 'brdma manual' from utils/brdma/grammar. docs/reference/cli.md is the long form.\n.TH " +
         title + " 8 \"\" \"libbitmaprdma " BRDMA_VERSION "\" \"System administration\"\n";
}

std::string exit_status() {
  return section("EXIT STATUS") + "0 done; 1 failed, with the reason on standard error; 2 misuse.\n" +
         bold("brdma run") + ",\n" + bold("brdma lab exec") + "\nand\n" + bold("brdma lab pair") +
         "\nreturn the program's own; 127 not found, 126 not executable.\n";
}

std::string examples_of(std::span<const std::string_view> examples) {
  if (examples.empty()) return {};
  std::string text = section("EXAMPLES") + ".nf\n";
  for (const std::string_view example : examples) text += escaped(example) + "\n";
  return text + ".fi\n";
}

std::string main_page() {
  std::string text = title_of("brdma") + section("NAME") +
                     "brdma \\- RDMA in user space: run programs with its devices, show, manage and try them out\n" +
                     section("SYNOPSIS") + bold("brdma") + " [" + bold("-j") + "|" + bold("-p") + "|" + bold("-d") +
                     "] [" + bold("-o") + " \\fIKEY,KEY\\fR] \\fIOBJECT\\fR [\\fICOMMAND\\fR]\n" +
                     section("DESCRIPTION") + paragraphs_of(kDescription) + section("OBJECTS");
  for (const Object& object : objects()) {
    text += ".TP\n" + bold(object.name) + "\n" + escaped(object.meaning) + ".\n";
  }
  text += section("OPTIONS");
  for (const Option& option : common_options()) text += option_entry(option);
  constexpr std::array<std::string_view, 2> kExamples{"brdma run -- ibv_devinfo",
                                                      "brdma lab pair --loss 1% -- ib_write_bw -s 65536"};
  text +=
      exit_status() + section("ENVIRONMENT") +
      "Each setting has a variable, as 'brdma system show config \\-d' lists them. An unknown variable BRDMA_... is a "
      "warning.\n.TP\n" +
      bold("NO_COLOR") + "\nnot empty: no colour.\n" + section("FILES") +
      ".IR /etc/bitmaprdma.toml ,\n.IR ~/.config/bitmaprdma.toml :\nsettings.\n" + examples_of(kExamples) +
      section("SEE ALSO");
  for (const Object& object : objects()) text += ".BR brdma\\-" + std::string{object.name} + " (8),\n";
  return text + ".BR brdmad (8),\n.BR rdma (8)\n";
}

std::string object_page(const Object& object) {
  const std::string name = "brdma-" + std::string{object.name};
  std::string text =
      title_of(name) + section("NAME") + escaped(name) + " \\- " + escaped(object.meaning) + "\n" + section("SYNOPSIS");
  for (const Command& row : object.commands)
    text += (&row == object.commands.data() ? "" : ".br\n") + synopsis(object, row);
  text += section("DESCRIPTION") + paragraphs_of(object.prose.empty() ? object.meaning : object.prose) +
          section("COMMANDS");
  std::vector<std::string_view> shown;
  std::string options;
  for (const Command& row : object.commands) {
    text += ".TP\n" + synopsis(object, row) + escaped(row.meaning) + ".\n";
    for (const Option& option : row.options) {
      if (std::find(shown.begin(), shown.end(), option.names) != shown.end()) continue;
      shown.push_back(option.names);
      options += option_entry(option);
    }
  }
  options += ".TP\n" + bold("-j") + ", " + bold("-p") + ", " + bold("-d") + ", " + bold("-o") +
             " \\fIKEY,KEY\\fR\nas in\n.BR brdma (8).\n";
  text += section("OPTIONS") + options;
  if (object.more != nullptr) text += section("VALUES") + ".nf\n" + escaped(object.more()) + ".fi\n";
  return text + exit_status() + examples_of(object.examples) + section("SEE ALSO") + ".BR brdma (8)\n";
}

// brdma-OBJECT is a program, which has a page of its own.
bool is_program(const Object& object) { return object.name == "controller" || object.commands.front().passes_on; }

std::vector<std::string> page_names() {
  std::vector<std::string> names{"brdma"};
  for (const Object& object : objects()) {
    if (!is_program(object)) names.push_back("brdma-" + std::string{object.name});
  }
  return names;
}

std::string page(const std::string& name) {
  if (name == "brdma") return main_page();
  for (const Object& object : objects()) {
    if (name == "brdma-" + std::string{object.name} || name == object.name) return object_page(object);
  }
  NearestWord nearest{name};
  for (const std::string& each : page_names()) nearest.offer(each);
  const std::string question = nearest.question();
  throw UsageError("there is no page '" + name + "'" + question + (question.empty() ? ":" : "") +
                   " 'brdma manual' lists them");
}

void write_pages(const std::string& folder) {
  for (const std::string& name : page_names()) {
    const std::string path = folder + "/" + name + ".8";
    std::ofstream file{path};
    file << page(name);
    if (!file.flush()) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  }
}

}  // namespace
}  // namespace brdma::grammar

namespace brdma {

int manual_object(Invocation& invocation) {
  Words& words = invocation.words;
  std::string name, folder;
  while (!words.empty()) {
    const std::string word = words.take();
    if (word == "--into") {
      folder = words.take_value(word);
    } else if (name.empty() && !word.starts_with("-")) {
      name = word;
    } else {
      throw grammar::unexpected(word, "manual");
    }
  }
  if (!folder.empty()) {
    grammar::write_pages(folder);
  } else if (!name.empty()) {
    std::fputs(grammar::page(name).c_str(), stdout);
  } else {
    for (const std::string& each : grammar::page_names()) std::printf("%s\n", each.c_str());
  }
  return 0;
}

}  // namespace brdma
