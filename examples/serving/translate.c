/* Translates with an exported SavedModel and without Python.
 *
 *     ./build.sh
 *     ./translate MODEL/1 "A sentence." "Another one."
 *     ./translate MODEL/1 < lines.txt
 *
 * A sentence in is a line out. The C library of TensorFlow runs the model, as
 * it does inside TF Serving; the tokenizer's operations come with
 * tensorflow-text.
 * TF_CPP_MIN_LOG_LEVEL=3 in the environment keeps TensorFlow from reporting.
 * Exit code 2 says that a command or a model was wrong, 1 that a translation
 * failed.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

#ifndef TEXT_OPS /* the library of the tokenizer; build.sh knows it */
#define TEXT_OPS "_sentencepiece_tokenizer.so"
#endif
#define LINES_AT_ONCE 256

static void fail(int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("translate: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(code);
}

static void check(TF_Status *status, int code, const char *what) {
  if (TF_GetCode(status) != TF_OK)
    fail(code, "%s: %s", what, TF_Message(status));
}

static void *allocate(size_t size) {
  void *memory = malloc(size);
  if (memory == NULL) fail(1, "out of memory");
  return memory;
}

/* Where a model's tensors are is written in its MetaGraphDef, a protocol
 * buffer. Of these only fields that hold bytes matter here: messages and
 * strings. */

typedef struct {
  const uint8_t *data, *end;
} Bytes;

static uint64_t read_varint(Bytes *from) {
  uint64_t number = 0;
  for (int shift = 0; from->data < from->end && shift < 64; shift += 7) {
    uint8_t byte = *from->data++;
    number |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) break;
  }
  return number;
}

/* Moves to the next field with this number; 0 if there is none. */
static int next_field(Bytes *from, unsigned number, Bytes *value) {
  while (from->data < from->end) {
    uint64_t tag = read_varint(from), length = 0;
    switch (tag & 7) {
      case 0: read_varint(from); break;
      case 1: length = 8; break;
      case 2: length = read_varint(from); break;
      case 5: length = 4; break;
      default: return 0;
    }
    if (length > (uint64_t)(from->end - from->data)) return 0;
    *value = (Bytes){from->data, from->data + length};
    from->data += length;
    if ((tag & 7) == 2 && tag >> 3 == number) return 1;
  }
  return 0;
}

/* The value with this key in the map that is the field with this number. */
static int find_entry(Bytes from, unsigned number, const char *key,
                      Bytes *value) {
  Bytes entry, name;
  while (next_field(&from, number, &entry)) {
    Bytes rest = entry;
    if (next_field(&rest, 1, &name) &&
        (size_t)(name.end - name.data) == strlen(key) &&
        memcmp(name.data, key, strlen(key)) == 0)
      return next_field(&entry, 2, value);
  }
  return 0;
}

enum { INPUTS = 1, OUTPUTS = 2, SIGNATURES = 5 }; /* numbers of fields */

/* The tensor behind the name of an input or output. */
static TF_Output find_tensor(TF_Graph *graph, Bytes signature, unsigned side,
                             const char *key) {
  Bytes info, name;
  char operation[1024];
  int index = 0;
  if (!find_entry(signature, side, key, &info) ||
      !next_field(&info, 1, &name) ||
      (size_t)(name.end - name.data) >= sizeof operation)
    fail(2, "the signature has no `%s`; export the model again", key);
  memcpy(operation, name.data, name.end - name.data);
  operation[name.end - name.data] = 0;
  char *colon = strrchr(operation, ':');
  if (colon != NULL) {
    index = atoi(colon + 1);
    *colon = 0;
  }
  TF_Output tensor = {TF_GraphOperationByName(graph, operation), index};
  if (tensor.oper == NULL) fail(2, "the model has no operation %s", operation);
  return tensor;
}

typedef struct {
  TF_Graph *graph;
  TF_Session *session;
  TF_Output text, translation;
} Model;

static Model load_model(const char *folder, const char *signature_name) {
  TF_Status *status = TF_NewStatus();
  const char *text_ops = getenv("TEXT_OPS");
  TF_LoadLibrary(text_ops ? text_ops : TEXT_OPS, status);
  check(status, 2, "no tokenizer operations; set TEXT_OPS to the "
        "_sentencepiece_tokenizer.so of tensorflow-text");

  Model model = {.graph = TF_NewGraph()};
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Buffer *meta_graph = TF_NewBuffer();
  const char *tags[] = {"serve"};
  model.session = TF_LoadSessionFromSavedModel(
      options, NULL, folder, tags, 1, model.graph, meta_graph, status);
  check(status, 2, "MODEL must be the folder of one exported version");

  Bytes meta = {meta_graph->data,
                (const uint8_t *)meta_graph->data + meta_graph->length};
  Bytes signature;
  if (!find_entry(meta, SIGNATURES, signature_name, &signature))
    fail(2, "the model has no signature %s", signature_name);
  model.text = find_tensor(model.graph, signature, INPUTS, "text");
  model.translation =
      find_tensor(model.graph, signature, OUTPUTS, "translation");
  TF_DeleteBuffer(meta_graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  return model;
}

static void delete_strings(void *data, size_t size, void *unused) {
  (void)unused;
  TF_TString *strings = data;
  for (size_t i = 0; i < size / sizeof *strings; i++)
    TF_StringDealloc(&strings[i]);
  free(data);
}

typedef struct {
  char *text; /* any bytes, zero among them */
  size_t length;
} Sentence;

/* Prints the translations of some sentences, a line each. */
static void translate(const Model *model, const Sentence *sentences,
                      size_t count) {
  int64_t shape[] = {(int64_t)count};
  TF_TString *strings = allocate(count * sizeof *strings);
  for (size_t i = 0; i < count; i++) {
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], sentences[i].text, sentences[i].length);
  }
  TF_Tensor *text = TF_NewTensor(TF_STRING, shape, 1, strings,
                                 count * sizeof *strings, delete_strings, NULL);
  TF_Tensor *translation = NULL;
  TF_Status *status = TF_NewStatus();
  TF_SessionRun(model->session, NULL, &model->text, &text, 1,
                &model->translation, &translation, 1, NULL, 0, NULL, status);
  check(status, 1, "cannot translate");
  if (TF_TensorType(translation) != TF_STRING ||
      TF_TensorElementCount(translation) != (int64_t)count)
    fail(2, "the signature must give one translation for each text");

  const TF_TString *results = TF_TensorData(translation);
  for (size_t i = 0; i < count; i++) {
    const char *result = TF_StringGetDataPointer(&results[i]);
    size_t length = TF_StringGetSize(&results[i]);
    for (size_t j = 0; j < length; j++) /* a line break would make two lines */
      putchar(result[j] == '\n' || result[j] == '\r' ? ' ' : result[j]);
    putchar('\n');
  }
  if (fflush(stdout) != 0) fail(1, "cannot write");
  TF_DeleteTensor(text);
  TF_DeleteTensor(translation);
  TF_DeleteStatus(status);
}

static void translate_lines(const Model *model, FILE *file) {
  Sentence lines[LINES_AT_ONCE];
  size_t count = 0;
  ssize_t length;
  do {
    char *line = NULL;
    size_t room = 0;
    length = getline(&line, &room, file);
    if (length > 0) {
      if (line[length - 1] == '\n') length--;
      if (length > 0 && line[length - 1] == '\r') length--; /* of Windows */
      lines[count++] = (Sentence){line, (size_t)length};
    } else {
      free(line);
      length = -1;
    }
    if (count == LINES_AT_ONCE || (length < 0 && count > 0)) {
      translate(model, lines, count);
      while (count > 0) free(lines[--count].text);
    }
  } while (length >= 0);
  if (ferror(file)) fail(1, "cannot read");
}

static void translate_arguments(const Model *model, char **texts,
                                size_t count) {
  Sentence *sentences = allocate(count * sizeof *sentences);
  for (size_t i = 0; i < count; i++)
    sentences[i] = (Sentence){texts[i], strlen(texts[i])};
  translate(model, sentences, count);
  free(sentences);
}

int main(int argc, char **argv) {
  const char *signature = "serving_default";
  if (argc > 2 && strcmp(argv[1], "--signature") == 0) {
    signature = argv[2];
    argv += 2;
    argc -= 2;
  }
  if (argc < 2 || argv[1][0] == '-')
    fail(2, "usage: translate [--signature NAME] MODEL [SENTENCE ...]");
  Model model = load_model(argv[1], signature);
  if (argc > 2)
    translate_arguments(&model, argv + 2, (size_t)(argc - 2));
  else
    translate_lines(&model, stdin);

  TF_Status *status = TF_NewStatus();
  TF_CloseSession(model.session, status);
  TF_DeleteSession(model.session, status);
  TF_DeleteStatus(status);
  TF_DeleteGraph(model.graph);
  return 0;
}
