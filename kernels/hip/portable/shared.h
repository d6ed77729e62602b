// Constants and layouts that the launch layer counts on. The object for the embedded device carries them in a section of its own,
// 64 bytes each, a name and a number, and a test compares them with the launch layer's (src/shared.rs). Other targets carry none.
//   SHARE(NAME)                   a constant
//   SHARE_AS(id, "name", value)   a constant of another name; `id` is any identifier
//   SHARE_LAYOUT(Type, fields)    the size of a structure and where its fields begin
#pragma once

#if defined(TARGET_HOST)
struct SharedValue {
    char name[56];
    u64 value;
};
#define SHARE_AS(id, text, number)                                                                 \
    static const SharedValue shared_##id __attribute__((section("candle_shared"), used)) = {text, (u64)(number)};
// Not by SHARE_AS, which would see the value of a macro in place of its name.
#define SHARE(name)                                                                                \
    static const SharedValue shared_##name __attribute__((section("candle_shared"), used)) = {#name, (u64)(name)};
#define SHARE_LAYOUT(T, ...) SHARE_AS(size_of_##T, #T, sizeof(T)) SHARE_MANY(SHARE_FIELDS(T, __VA_ARGS__))
// One field, and then the others: a macro does not expand within itself, so the name is put off and looked at again, up to 64 times.
#define SHARE_FIELDS(T, field, ...)                                                                \
    SHARE_AS(T##_##field, #T "." #field, __builtin_offsetof(T, field))                             \
    __VA_OPT__(SHARE_MORE SHARE_PARENTHESES (T, __VA_ARGS__))
#define SHARE_PARENTHESES ()
#define SHARE_MORE() SHARE_FIELDS
#define SHARE_MANY(...) SHARE_MANY_3(SHARE_MANY_3(SHARE_MANY_3(SHARE_MANY_3(__VA_ARGS__))))
#define SHARE_MANY_3(...) SHARE_MANY_2(SHARE_MANY_2(SHARE_MANY_2(SHARE_MANY_2(__VA_ARGS__))))
#define SHARE_MANY_2(...) SHARE_MANY_1(SHARE_MANY_1(SHARE_MANY_1(SHARE_MANY_1(__VA_ARGS__))))
#define SHARE_MANY_1(...) __VA_ARGS__
#else
#define SHARE(...)
#define SHARE_AS(...)
#define SHARE_LAYOUT(...)
#endif
